package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
)

// Members are the calls to a cluster that something else runs. Each has a deadline
// of its own. A change is made by way of one member that has just said that it is of
// this cluster, and by no other one: where it is not known to be made, the scene is
// looked at anew before it is tried again.
type Members interface {
	// List is the member list, by way of raft.
	List(ctx context.Context) (cluster.MemberView, error)
	// Status is a member's own word, with a quorum read where it votes.
	Status(ctx context.Context, m cluster.Member) (cluster.MemberStatus, error)
	AddLearner(ctx context.Context, of cluster.ClusterID, peerURLs []string) error
	Promote(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error
	Remove(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error
	// MoveLeader asks the leader.
	MoveLeader(ctx context.Context, of cluster.ClusterID, leader cluster.Member, to cluster.MemberID) error
	// Backup writes a backup into the store, and gives its name.
	Backup(ctx context.Context, of cluster.ClusterID) (string, error)
	// MayChange is nil where the credential may change members; ErrCredential, ErrRole.
	MayChange(ctx context.Context) error
	// Quota is to how many bytes a member whose status does not tell it holds its
	// database; negative: there is no quota.
	Quota(ctx context.Context, m cluster.Member) (int64, error)
	// Reach asks a member at its peer port, with a certificate as this host's
	// member will have it.
	Reach(ctx context.Context, m cluster.Member) error
	// Certified is nil where this host has what its member, and this command for that
	// member, need to speak TLS, or wants none.
	Certified() error
}

// Place keeps the admission of the host on which the command runs.
type Place interface {
	// ReadAdmission returns nil without error where there is none.
	ReadAdmission() (*record.Admission, error)
	// WriteAdmission returns once it is durable.
	WriteAdmission(*record.Admission) error
}

// Join brings this host's member into a cluster that something else runs, and takes
// the members that are not ours out of it once enough of ours vote. It keeps nothing
// between two steps but what lies in the store and on this host's disk, so that
// whoever runs it again, here or elsewhere, goes on (docs/adr/021-adoption-by-joining.md).
type Join struct {
	DataDir string
	URLs    cluster.URLs      // of this host's member
	Count   int               // how many members of ours there shall be; zero: as was written down, else as many as there are
	Keep    bool              // stop before the first removal
	Of      cluster.ClusterID // the one that is meant; zero: whichever answers
	Release cluster.Version   // of etcd, which a person asks for; zero: as the members run
	Options map[string]string // of etcd, for the spec, where it does not say them
	Hosts   []string          // peer URLs of hosts of ours: what is listed at one, and was not written down, was lost
	Within  time.Duration

	Members Members
	Place   Place           // nil: DataDir
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

// ErrCredential is that authentication is on, and etcd knows nobody by what was given.
var ErrCredential = errors.New("authentication is on, and etcd takes no credential of this command: give --user and --password-file, or --cert and --key with a certificate whose common name is a user's, of a user with the role root")

// ErrRole is that it knows a user who may not do this.
var ErrRole = errors.New("the user that was given has not the role root, which changes of members want: give --user and --password-file, or --cert and --key, of one that has it")

// errList is that no member gave a list.
var errList = errors.New("list the members")

type listError struct{ err error }

func (e *listError) Error() string        { return errList.Error() + ": " + e.err.Error() }
func (e *listError) Unwrap() error        { return e.err }
func (e *listError) Is(target error) bool { return target == errList }

// errChanged is that somebody has changed what is written down since the look.
var errChanged = errors.New("what is written down about this adoption has changed: looking again")

// oldAfter is when a backup says too little of the cluster as it is, if nothing was
// changed after it.
const oldAfter = 24 * time.Hour

// lookEvery is how often the cluster is looked at while something is waited for:
// no event tells that a learner has caught up.
const lookEvery = 300 * time.Millisecond

// Look is the scene of now.
func (j *Join) Look(ctx context.Context) (*Scene, error) {
	s := &Scene{Keep: j.Keep, Count: j.Count, Of: j.Of, Release: j.Release}
	var before blob.ETag
	var err error
	if j.Folder != nil {
		if _, before, err = readJoining(ctx, j.Folder); err != nil {
			return nil, err
		}
	}
	view, err := j.Members.List(ctx)
	if err != nil {
		return nil, &listError{err}
	}
	s.Cluster, s.Peer, s.Hosts = view.Cluster, joinsAt(j.URLs.Peer, view.Members), joinsAt(j.Hosts, view.Members)
	if err := j.lookAtStore(ctx, s, before); err != nil {
		return nil, err
	}
	if s.Admission, err = j.place().ReadAdmission(); err != nil {
		return nil, err
	}
	s.Members = make([]Seen, len(view.Members))
	done := make(chan struct{})
	for i, m := range view.Members {
		go func() {
			defer func() { done <- struct{}{} }()
			if cluster.SameAddresses(m.PeerURLs, s.Peer) && len(m.ClientURLs) == 0 {
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

// joinsAt is where a host of ours is listed for its peers: without TLS while the members are, since one that was started without
// certificates reaches nobody who listens with them. Once all are ours, the daemons turn it on (docs/adr/019-tls.md).
func joinsAt(own []string, members []cluster.Member) []string {
	plain := func(u string) bool { return !secure(u) }
	if slices.ContainsFunc(members, func(m cluster.Member) bool { return slices.ContainsFunc(m.PeerURLs, plain) }) {
		return cluster.WithoutTLS(own)
	}
	return own
}

// lookAtStore reads what is written down after the members were listed, since each of
// ours is written down before it is added, and our daemons change none before there is
// a record. A tag that is not that from before says that the list may be older than
// what is written down.
func (j *Join) lookAtStore(ctx context.Context, s *Scene, before blob.ETag) error {
	if j.Folder == nil {
		return nil
	}
	var tag blob.ETag
	var err error
	if s.Joining, tag, err = readJoining(ctx, j.Folder); err != nil {
		return err
	}
	s.Moving = tag != before
	if s.Joining != nil {
		name, err := backup.ParseName(s.Joining.Backup)
		s.Old = err == nil && time.Since(name.Time()) > oldAfter
	}
	in, marker, err := readIntent(ctx, j.Folder)
	if err != nil {
		return err
	}
	s.Recorded = marker && !in.Adopted() && in.Cluster == s.Cluster
	read, err := readSpec(ctx, j.Folder)
	switch {
	case errors.Is(err, control.ErrMalformed), errors.Is(err, cluster.ErrSpec):
		s.SpecWhy = err.Error()
	case err != nil:
		return fmt.Errorf("read the spec: %w", err)
	}
	s.Spec = read.Spec
	return nil
}

func (j *Join) place() Place {
	if j.Place == nil {
		return dirPlace(j.DataDir)
	}
	return j.Place
}

// Run takes one step after the other until there is none, or nothing comes of one.
func (j *Join) Run(ctx context.Context) error {
	if err := j.canAgree(ctx); err != nil {
		return err
	}
	var waiting time.Time
	seen := map[string]bool{} // what there was to do and to wait for, once
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
		// A step that there was before is no headway, and neither is one kind of wait after
		// another and back: a member that comes and goes would hold this up for ever.
		if what := fmt.Sprint(next.Kind, next.Member.ID); err == nil && !seen[what] {
			seen[what], waiting = true, time.Now()
			if next.Kind != StepWait && next.Kind != StepStart && next.Kind != StepDone {
				continue
			}
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

// canAgree: what is written down is agreed on by conditional writes (SAFETY.md, rule 19).
func (j *Join) canAgree(ctx context.Context) error {
	var can blob.Capabilities
	err := atStore(ctx, "try out what it can do", func(ctx context.Context) (err error) {
		can, err = j.Folder.Probe(ctx)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("find out what the store can do: %w", err)
	case !can.Conditional:
		return fmt.Errorf("%w: the store keeps no conditional writes, by which the hosts that join agree: use one that does (%s)", ErrRefused, strings.Join(can.Problems, "; "))
	}
	return nil
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
		return false, j.admit(ctx, s, next.Member.Member)
	case StepStart:
		return false, j.await(ctx, s, next.Member.Member)
	case StepPromote:
		return false, j.promote(ctx, s, next.Member)
	case StepMove:
		j.say("Moving raft's leadership to %s: %s.", next.To.label(), next.Reason)
		return false, j.Members.MoveLeader(ctx, s.Cluster, next.Member.Member, next.To.ID)
	case StepRemove:
		j.say("Removing member %s, which is not ours: %s.", next.Member.label(), next.Reason)
		return false, j.Members.Remove(ctx, s.Cluster, next.Member.ID)
	case StepJoined:
		j.say("Done here: %s.", next.Reason)
		return true, nil
	case StepDone:
		if s.Recorded {
			j.say("Done: the cluster is ours; %s.", next.Reason)
			return true, nil
		}
		j.say("%s; waiting for the leading daemon to write the cluster's record.", next.Reason)
	}
	return false, nil
}

func (j *Join) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != j.told {
		j.told = line
		j.Say("%s", line)
	}
}
