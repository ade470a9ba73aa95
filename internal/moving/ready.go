package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/register"
)

// NotReadyError says why a record is not moved now.
type NotReadyError struct{ Why string }

func (e *NotReadyError) Error() string {
	return e.Why + ": wait for its end, then run the command again"
}

// ready tells why the record is not to be moved as it is; nil: it may. Commands are waited for, never copied: one that a late writer
// brought back would run twice. So is whatever the hosts do step by step: nobody is to look for its end in two places.
func ready(doc *register.Document) (*cluster.Intent, error) {
	if doc.Moved != nil {
		return nil, fmt.Errorf("the record was moved to %s already, and the hosts follow within seconds: etcdadm store status", doc.Moved.Store)
	}
	in, err := movable(doc.Objects[control.KeyIntent].Data)
	if err != nil {
		return in, err
	}
	for key := range doc.Objects { // any order: one is enough
		if control.IsCommand(key) {
			return in, &NotReadyError{"a command is in the queue"}
		}
	}
	return in, nil
}

// movable is an intent, and why the record is not to be moved as it is.
func movable(data []byte) (*cluster.Intent, error) {
	var in cluster.Intent
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, errors.New("the record has no intent that can be read: the cluster has to be founded first")
	}
	why := ""
	switch {
	case in.Generation == 0 || in.Nonce == "":
		why = "the cluster was taken over, and its first record is not written yet"
	case in.State != cluster.IntentFounded:
		why = "a generation is being founded"
	case in.Quarantined:
		why = "the members are in quarantine"
	case len(in.Next) > 0 || len(in.Pending) > 0 || in.Replacing != nil:
		why = "the voters are being changed"
	case in.Halt != nil:
		why = "the cluster is stopped for a change of version"
	case !in.Unstored.IsZero():
		why = "the record has a write that was made without it"
	}
	if why != "" {
		return &in, &NotReadyError{why}
	}
	return &in, nil
}

// settle waits for what goes on to end, as look sees it.
func (m *Mover) settle(ctx context.Context, look func(context.Context) error) error {
	m.step("look whether the record can be moved now")
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var busy *NotReadyError
	for {
		if err := m.Leads(); err != nil {
			return err
		}
		err := look(ctx)
		now, wait := errors.AsType[*NotReadyError](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && busy != nil:
			return busy
		case !wait:
			return err
		case busy == nil || busy.Why != now.Why:
			m.step("wait: %s", now.Why)
		}
		busy = now
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return busy
		}
	}
}
