package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

// questioned is a daemon that remembers what it was asked, and does what it is told.
type questioned struct {
	answering
	mu    sync.Mutex // guards asked
	asked []string
}

func (q *questioned) Report(ctx context.Context, c peer.Caller, question json.RawMessage) (json.RawMessage, error) {
	var asked console.Question
	if err := json.Unmarshal(question, &asked); err != nil {
		return nil, err
	}
	if asked.Kind == console.AskStatus {
		return q.answering.Report(ctx, c, question)
	}
	words := []string{asked.Kind}
	if asked.Dir != "" {
		words = append(words, asked.Dir)
	}
	if asked.Do {
		words = append(words, "do")
	}
	q.mu.Lock()
	q.asked = append(q.asked, strings.Join(words, " "))
	q.mu.Unlock()
	switch asked.Kind {
	case console.AskPrune:
		all := []cluster.SetAside{{Dir: "/data/data-trashcan/old", Reason: "removed"}, {Dir: "/data/data-trashcan/was", Reason: "superseded"}, {Dir: "/data/data-trashcan/behind", Reason: "superseded"}, {Dir: "/data/data-trashcan/unseen", Reason: "superseded"}}
		if asked.Dir != "" {
			all = slices.DeleteFunc(all, func(a cluster.SetAside) bool { return a.Name() != asked.Dir })
		}
		return json.Marshal(console.Pruned{Host: "a", Aside: all, Done: asked.Do})
	case console.AskForget:
		return json.Marshal(console.Forgot{By: "a", Host: asked.Host, Knew: asked.Host == "gone"})
	case console.AskFence:
		return json.Marshal(console.FenceReset{Host: "a", Done: asked.Do})
	case console.AskConfirm:
		return json.Marshal(console.DiskConfirmation{Host: "a", Unheard: []cluster.HostID{"c"}, Done: asked.Do})
	}
	return nil, errors.New("nobody asks that here")
}

func (q *questioned) heard() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	heard := q.asked
	q.asked = nil
	return heard
}

// A daemon is told to do what cannot be taken back only after it has said what that
// is, never for a dry run, and never without a yes.
func TestADryRunOnlyAsks(t *testing.T) {
	q := &questioned{}
	at := serveDaemon(t, "test", "a", q)
	q.report = console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Contacts: []cluster.Contact{{Host: "a", Endpoint: at}}, Observation: &cluster.Observation{}, Aside: []plan.Aside{
		{Host: "a", SetAside: cluster.SetAside{Dir: "/data/data-trashcan/was"}, OnlyWay: true}, {Host: "a", SetAside: cluster.SetAside{Dir: "/data/data-trashcan/behind"}},
	}}
	for line, c := range map[string]struct {
		code  int
		asked []string
		said  string
	}{
		"host prune":                           {ExitOK, []string{"prune"}, "REASON"},
		"host prune a":                         {ExitOK, []string{"prune"}, "REASON"},
		"host prune --dir old --dry-run":       {ExitOK, []string{"prune", "prune old"}, "What its removal gives up"},
		"host prune --dir old --dry-run --yes": {ExitOK, []string{"prune", "prune old"}, "What its removal gives up"},
		"host prune a --dir old --yes":         {ExitOK, []string{"prune", "prune old", "prune old do"}, "removed /data/data-trashcan/old"},
		"host prune --dir was --yes":           {ExitUnsafe, []string{"prune", "prune was"}, "was is the only known way back to the former cluster"},
		"host prune --dir was --dry-run":       {ExitUnsafe, []string{"prune", "prune was"}, "etcdadm restore --undo --from a --dir was"},
		"host prune --dir was --yes --force":   {ExitOK, []string{"prune", "prune was", "prune was do"}, "removed /data/data-trashcan/was"},
		"host prune --dir behind --yes":        {ExitOK, []string{"prune", "prune behind", "prune behind do"}, "removed /data/data-trashcan/behind"},
		"host prune --dir unseen --yes":        {ExitUnsafe, []string{"prune", "prune unseen"}, "only known way back"},
		"host prune --dir /data/other --yes":   {ExitUsage, []string{"prune"}, "is not the path"},
		"host prune --dir old":                 {ExitUnsafe, []string{"prune", "prune old"}, "nothing was changed"},
		"host forget gone":                     {ExitOK, []string{"forget"}, "host gone is forgotten by a"},
		"host forget nobody":                   {ExitError, []string{"forget"}, "no reachable daemon knows host nobody"},
		"host confirm-disk --dry-run":          {ExitOK, []string{"confirm-disk"}, "not heard: c."},
		"host confirm-disk a --dry-run --yes":  {ExitOK, []string{"confirm-disk"}, "not confirmed"},
		"host confirm-disk --yes":              {ExitOK, []string{"confirm-disk", "confirm-disk do"}, "disk confirmed"},
		"host confirm-disk":                    {ExitUnsafe, []string{"confirm-disk"}, "nothing was changed"},
		"host reset-fence --dry-run":           {ExitOK, []string{"reset-fence"}, "refuses every leader"},
		"host reset-fence a --dry-run --yes":   {ExitOK, []string{"reset-fence"}, "refuses every leader"},
		"host reset-fence --yes":               {ExitOK, []string{"reset-fence", "reset-fence do"}, "and now"},
		"host reset-fence":                     {ExitUnsafe, []string{"reset-fence"}, "nothing was changed"},
	} {
		code, out, errs := runEtcdadm(append(strings.Fields(line), "--endpoint="+at, "--cluster-name=test")...)
		if asked := q.heard(); code != c.code || !slices.Equal(asked, c.asked) || !strings.Contains(out+errs, c.said) {
			t.Errorf("%s: exit code %d, asked %q, want %d and %q, with %q\n%s%s", line, code, asked, c.code, c.asked, c.said, out, errs)
		}
	}
}
