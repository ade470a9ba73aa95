package manager

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// queueCommand puts a command into the queue, as a person would.
func (t *term) queueCommand(ctx context.Context, c *cluster.Command) bool {
	m := t.m
	if m.o.Control == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
	defer cancel()
	_, err := m.o.Control.AddWish(ctx, control.Wish{Kind: c.Kind, Host: c.Host, Dir: c.Dir, Lost: c.Lost})
	m.said.Say("queue a command", "cannot queue a command", err)
	m.watch.Changed(false)
	return err == nil
}

// endCommand keeps how a command ended, and takes it out of the queue.
func (t *term) endCommand(ctx context.Context, e *plan.CommandEnd) bool {
	m := t.m
	if m.o.Control == nil {
		return false
	}
	end := control.Ended{Name: e.Name, Result: string(e.Result), Reason: e.Reason, At: time.Now().UTC().Round(time.Second)}
	if t.last != nil {
		for _, c := range t.last.Commands {
			if c.Name == e.Name {
				end.Kind, end.Backup, end.Host, end.Dir = c.Kind, c.Backup, c.Host, c.Dir
			}
		}
		if end.Kind == cluster.CommandBackup {
			end.Backup = takenFor(t.last, e.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
	defer cancel()
	err := m.o.Control.EndCommand(ctx, end)
	m.said.Say("end "+e.Name, "cannot take a command out of the queue", err)
	m.watch.Changed(true) // a backup may have come
	return err == nil
}

// takenFor names the backup that a host has taken for a command; empty: none has.
func takenFor(o *cluster.Observation, command string) string {
	for i := range o.Hosts {
		if t := o.Hosts[i].Taken; t != nil && t.Command == command && t.Backup != nil {
			return t.Backup.Name
		}
	}
	return ""
}

// writePauses writes down which hosts are paused.
func (t *term) writePauses(ctx context.Context, c *plan.PauseChange, l look) bool {
	return t.writeDown(ctx, l, "pauses", "cannot write down which hosts are paused", c.String(), func(ctx context.Context) error {
		return t.m.o.Control.WritePauses(ctx, c.Was, c.Now)
	})
}

// writeManual writes down whether self-management is off.
func (t *term) writeManual(ctx context.Context, c *plan.ManualChange, l look) bool {
	return t.writeDown(ctx, l, "self-management", "cannot write down whether self-management is off", c.String(), func(ctx context.Context) error {
		return t.m.o.Control.WriteManual(ctx, c.Was, c.Now)
	})
}

// writeDown writes what a person's step says into the record, if this daemon may, and tells whether it is there.
func (t *term) writeDown(ctx context.Context, l look, topic, cannot, what string, write func(context.Context) error) bool {
	m := t.m
	if m.o.Control == nil {
		return false
	}
	err := t.mayWrite(l)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
		defer cancel()
		err = write(ctx)
	}
	m.said.Say(topic, cannot, err)
	if err == nil {
		m.log.Info("written down by a person's step", "what", what)
	}
	return err == nil
}

// putCount writes a member count that a command asked for into the spec.
func (t *term) putCount(ctx context.Context, n *cluster.CountChange) bool {
	m := t.m
	if m.o.Control == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
	defer cancel()
	err := m.o.Control.PutCount(ctx, n)
	m.said.Say("spec count", "cannot write the member count of a command into the spec", err)
	if err == nil {
		m.log.Info("the spec asks for the member count of a command", "members", n.Members, "before", n.Was)
	}
	return err == nil
}
