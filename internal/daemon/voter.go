package daemon

import (
	"context"
	"errors"
)

// voter is why the own member is no voter that serves; nil: it is. That is its own word, so that a look costs the cluster nothing, and
// is given also while the host is at something else.
func voter(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	own, quarantined, err := d.host.Own()
	if err != nil {
		return errors.New("this host carries no member that can be asked")
	}
	s, err := own.LocalStatus(ctx)
	switch {
	case err != nil:
		return errors.New("the member of this host does not answer")
	case s.Auth:
		return errors.New("the member of this host tells its state to root only, and this daemon has no password")
	case s.Learner:
		return errors.New("the member of this host is a learner")
	case s.Leader == 0:
		return errors.New("the member of this host knows no leader of raft")
	case quarantined:
		return errors.New("the member of this host is in quarantine: no clients are let in")
	}
	return nil
}
