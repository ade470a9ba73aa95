package sources

import (
	"context"
	"time"

	"etcdadm.io/internal/progress"
)

// workSays is when the log first tells how far work with backups and data is, and
// workPause the longest pause between two such lines: status tells it, too, for what is
// made ready.
const (
	workSays  = time.Minute
	workPause = 10 * time.Minute
)

// working has the log tell how far long work is, and what it waits for.
func (s *Sources) working(ctx context.Context, work string) (context.Context, func()) {
	return progress.Tell(ctx, progress.Words{
		First: workSays, Most: workPause,
		Still: func(step *progress.Step, after time.Duration) {
			if step == nil {
				s.o.Log.Info("still at work", "work", work, "after", after.Round(time.Second))
				return
			}
			s.o.Log.Info("still at work", "work", work, "after", after.Round(time.Second), "step", step.What, "done", step.Done(), "of", step.Total, "unit", string(step.Unit))
		},
		Waits: func(sentence string) { s.o.Log.Warn("work with data waits", "work", work, "for", sentence) },
	})
}
