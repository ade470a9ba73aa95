package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host"
)

// Members are the calls to a cluster that something else runs. Each has a deadline
// of its own.
type Members interface {
	// List is the member list, by way of raft.
	List(ctx context.Context) (cluster.MemberView, error)
	// Status is a member's own word, with a quorum read where it votes.
	Status(ctx context.Context, m cluster.Member) (cluster.MemberStatus, error)
	AddLearner(ctx context.Context, peerURLs []string) error
	Promote(ctx context.Context, id cluster.MemberID) error
	Remove(ctx context.Context, id cluster.MemberID) error
	// MoveLeader asks the leader.
	MoveLeader(ctx context.Context, leader cluster.Member, to cluster.MemberID) error
	// Backup writes a backup into the store, and gives its name.
	Backup(ctx context.Context) (string, error)
	// Reach asks a member at its peer port, with a certificate as this host's
	// member will have it.
	Reach(ctx context.Context, m cluster.Member) error
}

// Join brings this host's member into a cluster that something else runs, and takes
// the members that are not ours out of it once enough of ours vote. It keeps nothing
// between two steps but what lies in the store and on this host's disk, so that
// whoever runs it again, here or elsewhere, goes on (docs/adr/021-adoption-by-joining.md).
type Join struct {
	DataDir string
	URLs    cluster.URLs // of this host's member
	Count   int          // how many members of ours there shall be; zero: as many as there were
	Keep    bool         // stop before the first removal
	Within  time.Duration

	Members Members
	Folder  *control.Folder // nil: the store cannot be looked into before anything is done
	Has     func(cluster.Version) bool
	// Say tells a person what is done, or waited for.
	Say func(format string, args ...any)
	// Daemon is the command line of this host's daemon.
	Daemon string

	told string // what was said last
}

// ErrAgain is that what was waited for did not come in time. Everything that was done
// stands, and another run goes on with it.
var ErrAgain = errors.New("run this again to go on")

// ErrRefused is that only a person can go on.
var ErrRefused = errors.New("refused")

// lookEvery is how often the cluster is looked at while something is waited for:
// no event tells that a learner has caught up.
const lookEvery = 300 * time.Millisecond

// Look is the scene of now.
func (j *Join) Look(ctx context.Context) (*Scene, error) {
	view, err := j.Members.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the members: %w", err)
	}
	s := &Scene{Cluster: view.Cluster, Peer: j.URLs.Peer, Keep: j.Keep}
	if j.Folder != nil {
		if s.Joining, _, err = j.Folder.ReadJoining(ctx); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(j.admissionPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read admission: %w", err)
	}
	if s.Admission, err = host.ParseAdmission(data); err != nil {
		return nil, err
	}
	s.Members = make([]Seen, len(view.Members))
	done := make(chan struct{})
	for i, m := range view.Members {
		go func() {
			defer func() { done <- struct{}{} }()
			if sameURLs(m.PeerURLs, j.URLs.Peer) && len(m.ClientURLs) == 0 {
				m.ClientURLs = j.URLs.Client // it has not told the others yet
			}
			s.Members[i].Member = m
			st, err := j.Members.Status(ctx, m)
			if err != nil {
				s.Members[i].Why = err.Error()
				return
			}
			s.Members[i].Status = &st
		}()
	}
	for range view.Members {
		<-done
	}
	return s, ctx.Err()
}

func (j *Join) admissionPath() string {
	return filepath.Join(j.DataDir, "etcdadm", host.AdmissionFile)
}

// Run takes one step after the other until there is none, or nothing comes of one.
func (j *Join) Run(ctx context.Context) error {
	var waiting time.Time
	var last StepKind
	for {
		s, err := j.Look(ctx)
		if err != nil {
			s = nil
		}
		var next Step
		if s == nil {
			next = Step{Kind: StepWait, Reason: err.Error()}
		} else {
			next = s.Next()
		}
		end, err := j.take(ctx, s, next)
		switch {
		case end || errors.Is(err, ErrRefused):
			return err
		case err != nil: // the next look shows what became of it
			next.Reason = err.Error()
			j.say("Waiting: %s", next.Reason)
		}
		if err == nil && next.Kind != last {
			waiting = time.Now()
		}
		last = next.Kind
		if err == nil && next.Kind != StepWait && next.Kind != StepStart && next.Kind != StepDone {
			continue
		}
		if waiting.IsZero() {
			waiting = time.Now()
		}
		if time.Since(waiting) > j.Within {
			return fmt.Errorf("%s: %w", next.Reason, ErrAgain)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// take takes a step. An end is nothing more to do here.
func (j *Join) take(ctx context.Context, s *Scene, next Step) (end bool, err error) {
	switch next.Kind {
	case StepRefuse:
		return true, fmt.Errorf("%w: %s", ErrRefused, next.Reason)
	case StepWait:
		j.say("Waiting: %s", next.Reason)
	case StepBackup:
		return false, j.backUp(ctx, s)
	case StepAdd:
		return false, j.add(ctx, s)
	case StepAdmit:
		return false, j.admit(s, next.Member.Member)
	case StepStart:
		return false, j.await(s, next.Member.Member)
	case StepPromote:
		return false, j.promote(ctx, next.Member.ID)
	case StepMove:
		j.say("Moving raft's leadership to %s: %s.", next.To.label(), next.Reason)
		return false, j.Members.MoveLeader(ctx, next.Member.Member, next.To.ID)
	case StepRemove:
		j.say("Removing member %s, which is not ours: %s.", next.Member.label(), next.Reason)
		return false, j.Members.Remove(ctx, next.Member.ID)
	case StepJoined:
		j.say("Done here: %s.", next.Reason)
		return true, nil
	case StepDone:
		return j.recorded(ctx, next)
	}
	return false, nil
}

func (j *Join) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != j.told {
		j.told = line
		j.Say("%s", line)
	}
}

// backUp writes down who was there, makes the store one of a cluster that something
// else founded, so that no daemon of ours founds one, and has a backup taken.
func (j *Join) backUp(ctx context.Context, s *Scene) error {
	count := j.Count
	if count == 0 {
		count = len(s.Members)
	}
	err := j.change(ctx, func(now *control.Joining) *control.Joining {
		if now != nil {
			return nil
		}
		now = &control.Joining{Cluster: s.Cluster, Members: count}
		for _, m := range s.Members {
			now.Foreign = append(now.Foreign, m.Member)
		}
		return now
	})
	if err == nil {
		err = j.Folder.MarkForeign(ctx, cluster.Spec{MemberCount: count, EtcdVersion: s.Version()}, time.Now())
	}
	if err != nil {
		return err
	}
	j.say("Backing the cluster up.")
	name, err := j.Members.Backup(ctx)
	if err != nil {
		return fmt.Errorf("back the cluster up: %w", err)
	}
	j.say("It is backed up as %s.", name)
	return j.change(ctx, func(now *control.Joining) *control.Joining {
		if now == nil || now.Backup != "" {
			return nil
		}
		now.Backup = name
		return now
	})
}

// change changes what is written in the store; nil: it needs no change.
func (j *Join) change(ctx context.Context, how func(*control.Joining) *control.Joining) error {
	for {
		now, tag, err := j.Folder.ReadJoining(ctx)
		if err != nil {
			return err
		}
		now = how(now)
		if now == nil {
			return nil
		}
		if err := j.Folder.PutJoining(ctx, tag, now); !errors.Is(err, control.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// add writes down in the store that this host joins, on its disk which members
// exist, and then adds the learner.
func (j *Join) add(ctx context.Context, s *Scene) error {
	err := j.change(ctx, func(now *control.Joining) *control.Joining {
		if now == nil || slices.ContainsFunc(now.Ours, func(u []string) bool { return sameURLs(u, j.URLs.Peer) }) {
			return nil
		}
		now.Ours = append(now.Ours, j.URLs.Peer)
		return now
	})
	if err != nil {
		return err
	}
	a := &host.Admission{Cluster: s.Cluster, Token: "adopted-" + s.Cluster.String(), URLs: j.URLs, Version: s.Version()}
	for _, m := range s.Members {
		a.Known = append(a.Known, m.ID)
	}
	if err := j.writeAdmission(a); err != nil {
		return err
	}
	j.say("Adding this host's member as a learner at %s.", strings.Join(j.URLs.Peer, ", "))
	return j.Members.AddLearner(ctx, j.URLs.Peer)
}

// admit tells this host's daemon which member is its.
func (j *Join) admit(s *Scene, own cluster.Member) error {
	a := *s.Admission
	a.Member, a.Members = own.ID, nil
	for _, m := range s.Members {
		a.Members = append(a.Members, m.Member)
	}
	return j.writeAdmission(&a)
}

func (j *Join) writeAdmission(a *host.Admission) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(j.admissionPath()), 0o700); err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	if err := durable.Replace(j.admissionPath(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	return nil
}

// await has a person start the daemon. A member that never told its name was never
// started, as far as anybody knows, so that it is told the members of now.
func (j *Join) await(s *Scene, own cluster.Member) error {
	j.say("This host's member %s waits for its daemon, which sees that within ten seconds where it runs already. Else start it now, and keep it running:\n  %s", own.ID, j.Daemon)
	if own.Name == "" && len(s.Admission.Members) != len(s.Members) {
		return j.admit(s, own)
	}
	return nil
}

// promote writes down that the member will have voted, and makes it a voter.
func (j *Join) promote(ctx context.Context, own cluster.MemberID) error {
	err := j.change(ctx, func(now *control.Joining) *control.Joining {
		if now == nil || slices.Contains(now.Promoted, own) {
			return nil
		}
		now.Promoted = append(now.Promoted, own)
		return now
	})
	if err != nil {
		return err
	}
	j.say("Promoting this host's member %s: it has caught up.", own)
	return j.Members.Promote(ctx, own)
}

// recorded waits for the leading daemon's record.
func (j *Join) recorded(ctx context.Context, next Step) (bool, error) {
	in, marker, _, err := j.Folder.ReadIntent(ctx)
	switch {
	case err != nil && !errors.Is(err, blob.ErrNotFound):
		return false, err
	case marker && !in.Adopted():
		j.say("Done: %s, and the leading daemon has written the cluster's record.", next.Reason)
		return true, nil
	}
	j.say("%s; waiting for the leading daemon to write the cluster's record.", next.Reason)
	return false, nil
}
