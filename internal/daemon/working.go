package daemon

import (
	"context"
	"time"

	"etcdadm.io/internal/progress"
)

// working has the log tell how far long work is, and what it waits for.
func (d *daemon) working(ctx context.Context, work string) (context.Context, func()) {
	return progress.Tell(ctx, progress.Words{
		First: workSays, Most: workPause,
		Still: func(s *progress.Step, after time.Duration) {
			if s == nil {
				d.log.Info("still at work", "work", work, "after", after.Round(time.Second))
				return
			}
			d.log.Info("still at work", "work", work, "after", after.Round(time.Second), "step", s.What, "done", s.Done(), "of", s.Total, "unit", string(s.Unit))
		},
		Waits: func(sentence string) { d.log.Warn("work with data waits", "work", work, "for", sentence) },
	})
}
