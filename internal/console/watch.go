package console

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
)

// News tells which decisions were not told before. The zero value has told none.
type News struct {
	leader cluster.HostID
	number int
	at     time.Time
}

// Of are the decisions of a report that are new. They are counted by the daemon that leads,
// so another leader counts anew.
func (n *News) Of(r *Report) []Said {
	if r == nil || !r.Leading {
		return nil
	}
	if r.Host != n.leader {
		n.leader, n.number = r.Host, 0
	}
	var out []Said
	for _, s := range r.Recent {
		if s.Number > n.number && (s.At.After(n.at) || n.number > 0) {
			out = append(out, s)
		}
		n.number = max(n.number, s.Number)
		if s.At.After(n.at) {
			n.at = s.At
		}
	}
	return out
}

// Watch asks for the status again and again, with a pause in between, and shows each answer
// or why there is none, until the context ends. Each question has its own deadline.
func Watch(ctx context.Context, pause, within time.Duration, look func(context.Context) (Report, error), show func(Report, error)) {
	for {
		asking, cancel := context.WithTimeout(ctx, within)
		r, err := look(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		show(r, err)
		if !wake.After(ctx, pause) {
			return
		}
	}
}
