package cli

import (
	"context"
	"fmt"
	"io"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
)

// told is what a look at what the leader sees and decides says to somebody who
// waits for a change that rolls through the members.
type told struct {
	done bool
	why  string // what was reached, or is waited for; empty: the leader has not looked yet
	say  bool   // it is worth a line
	err  error  // it will not be reached by itself
}

// follow says at once what is waited for and how long, looks until what was asked
// for is there, and tells each step once. A daemon that does not answer is asked
// again. What did not come in time is the first word of the error.
func (q *queue) follow(ctx context.Context, out io.Writer, what func() string, look func(*cluster.Observation, *plan.Decision) told) error {
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	fmt.Fprintf(out, "waiting up to %[2]s: %[1]s; the change continues if you stop waiting\n", what(), q.wait)
	said, why := "", "the leading daemon has not looked at it yet"
	for {
		conn, err := q.open()
		if err != nil {
			return err
		}
		r, err := conn.Status(ctx)
		conn.Close()
		if err == nil && r.Observation != nil && r.Decision != nil {
			t := look(r.Observation, r.Decision)
			if t.why != "" {
				why = t.why
			}
			if (t.say || t.done || said == "") && t.why != "" && t.why != said { // the first one whatever it is: something else may come first
				fmt.Fprintln(out, t.why)
				said = t.why
			}
			if t.done || t.err != nil {
				return t.err
			}
		}
		if !wake.After(ctx, queueEvery) {
			return over(ctx, fmt.Errorf("%s after %s: %s", what(), q.wait, why), "it continues without you; run etcdadm status to see how far it is")
		}
	}
}
