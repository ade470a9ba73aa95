package adoption

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
)

// backUp writes down who is there, over what is over, makes the store one of a cluster
// that something else founded, so that no daemon of ours founds one, and has a backup
// taken.
func (j *Join) backUp(ctx context.Context, s *Scene) error {
	var written *control.Joining
	err := j.change(ctx, func(now *control.Joining) (*control.Joining, error) {
		written = now
		switch {
		case now != nil && s.ended() && !reflect.DeepEqual(now, s.Joining):
			return nil, errChanged // a member of ours may be listed by now, or about to vote
		case now != nil && !s.ended():
			return nil, nil
		}
		written = &control.Joining{Cluster: s.Cluster, Members: s.want()}
		if now != nil {
			written.Former = slices.Concat(now.Former, now.Promoted)
		}
		for _, m := range s.Members {
			written.Foreign = append(written.Foreign, m.Member)
		}
		return written, nil
	})
	if err == nil {
		err = markForeign(ctx, j.Folder, cluster.Spec{MemberCount: written.Members, EtcdVersion: s.Version()})
	}
	if err != nil {
		return err
	}
	settings, _ := j.settings(ctx, s) // what is not known was told with the plan
	if err := keepOptions(ctx, j.Folder, settings); err != nil {
		return err
	}
	j.say("Backing the cluster up.")
	name, err := j.Members.Backup(ctx, s.Cluster)
	if err != nil {
		return fmt.Errorf("back the cluster up: %w", err)
	}
	j.say("It is backed up as %s.", name)
	return j.change(ctx, func(now *control.Joining) (*control.Joining, error) {
		if now == nil || now.Backup != "" {
			return nil, nil
		}
		now.Backup = name
		return now, nil
	})
}

const (
	// changeTries is more than the hosts of a cluster, each of which may come
	// first once; a store that always says that another came first ends it.
	changeTries = 20
	// changePause is about what a write to a store takes.
	changePause = 50 * time.Millisecond
)

// change changes what is written in the store; nil: it needs no change.
func (j *Join) change(ctx context.Context, how func(*control.Joining) (*control.Joining, error)) error {
	for try := 1; ; try++ {
		now, tag, err := readJoining(ctx, j.Folder)
		if err != nil {
			return err
		}
		now, err = how(now)
		if now == nil || err != nil {
			return err
		}
		err = atStore(ctx, "write down how far the joining is", func(ctx context.Context) error { return j.Folder.PutJoining(ctx, tag, now) })
		if !errors.Is(err, control.ErrConflict) {
			return err
		}
		if try == changeTries {
			return fmt.Errorf("write down in the store how far the joining is, tried %d times: %w", try, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(changePause):
		}
	}
}

// listed writes this host's peer URLs down among ours.
func (j *Join) listed(ctx context.Context, s *Scene) error {
	return j.change(ctx, func(now *control.Joining) (*control.Joining, error) {
		switch {
		case now == nil || now.Backup == "":
			return nil, errChanged
		case now.IsOurs(cluster.Member{PeerURLs: s.Peer}):
			return nil, nil
		}
		now.Ours = append(now.Ours, s.Peer)
		return now, nil
	})
}

// add writes down in the store that this host joins, on its disk which members
// exist, and then adds the learner.
func (j *Join) add(ctx context.Context, s *Scene) error {
	version, ok := j.release(s)
	if !ok {
		return fmt.Errorf("%w: this host has no etcd %s, which the members run", ErrRefused, s.Version())
	}
	if err := j.listed(ctx, s); err != nil {
		return err
	}
	a := &record.Admission{Cluster: s.Cluster, Token: "adopted-" + s.Cluster.String(), URLs: j.URLs, Version: version}
	a.URLs.Peer = s.Peer
	if s.Spec != nil {
		a.Options, _ = etcdargs.Options(s.Spec.Options, version) // what it has not got, the daemon tells
	}
	for _, m := range s.Members {
		a.Known = append(a.Known, m.ID)
	}
	if err := j.place().WriteAdmission(a); err != nil {
		return err
	}
	j.say("Adding this host's member as a learner at %s.", strings.Join(s.Peer, ", "))
	return j.Members.AddLearner(ctx, s.Cluster, s.Peer)
}

// release is what this host's member will run: the highest of what the members run
// that this host has.
func (j *Join) release(s *Scene) (cluster.Version, bool) {
	for _, v := range s.Versions() {
		if v.Runnable() == nil && j.Has(v) {
			return v, true
		}
	}
	return cluster.Version{}, false
}

// admit tells this host's daemon which member is its.
func (j *Join) admit(ctx context.Context, s *Scene, own cluster.Member) error {
	if err := j.listed(ctx, s); err != nil { // an adoption that was begun anew meanwhile knows nothing of it
		return err
	}
	a := *s.Admission
	a.Member, a.Members = own.ID, nil
	a.URLs.Peer = own.PeerURLs // an add that came late may be with another scheme
	for _, m := range s.Members {
		a.Members = append(a.Members, m.Member)
	}
	return j.place().WriteAdmission(&a)
}

// await has a person start the daemon. A member that never told its name was never
// started, as far as anybody knows, so that it is told the members of now.
func (j *Join) await(ctx context.Context, s *Scene, own cluster.Member) error {
	j.say("This host's member %s waits for its daemon, which sees that within ten seconds where it runs already. Else start it now, and keep it running:\n  %s", own.ID, j.Daemon)
	if own.Name == "" && len(s.Admission.Members) != len(s.Members) {
		return j.admit(ctx, s, own)
	}
	return nil
}

// promote writes down that the member will have voted, asks it once more, since the
// store may have taken its time, and makes it a voter.
func (j *Join) promote(ctx context.Context, s *Scene, own Seen) error {
	err := j.change(ctx, func(now *control.Joining) (*control.Joining, error) {
		switch {
		case now == nil || now.Backup == "" || !now.IsOurs(own.Member):
			return nil, errChanged
		case slices.Contains(now.Promoted, own.ID):
			return nil, nil
		}
		now.Promoted = append(now.Promoted, own.ID)
		return now, nil
	})
	if err != nil {
		return err
	}
	st, err := j.Members.Status(ctx, own.Member)
	if err != nil {
		return fmt.Errorf("ask the learner again: %w", err)
	}
	own.Status = &st
	if again := s.promote(own); again.Kind != StepPromote {
		return errors.New(again.Reason)
	}
	j.say("Promoting this host's member %s: it has caught up.", own.ID)
	return j.Members.Promote(ctx, s.Cluster, own.ID)
}
