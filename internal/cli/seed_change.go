package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/plan"
)

// running is the cluster that a store is of, as far as a change of its spec goes.
type running struct {
	spec   cluster.Spec   // before the change
	voters []cluster.Seat // as the leading daemon told them last; nil: it did not
	count  int            // how many voters there are: the spec may be on hold, or not reached yet; 0: not known
	// refused is why the spec could not be followed; nil: it could.
	refused error
	missing bool // there is no spec
	// releases are the versions that the members run, as the leading daemon told them last.
	releases []string
}

// runningIn is the cluster of a store before its spec is changed, as it was read; nil:
// there is none yet. A record that cannot be read is one, and so is a cluster whose spec is
// refused or missing: it runs all the same.
func runningIn(ctx context.Context, f *control.Folder, read control.SpecRead, err error) *running {
	refused := err
	if refused != nil && !specUnusable(refused) {
		return nil
	}
	in, marker, _, err := f.ReadIntent(ctx)
	if err == nil && !marker {
		return nil
	}
	r := &running{refused: refused, missing: refused == nil && read.Spec == nil}
	if r.judged() {
		r.spec, r.count = *read.Spec, read.Spec.MemberCount
	}
	if (err == nil || errors.Is(err, control.ErrOtherCluster)) && in != nil && len(in.Voters) > 0 {
		r.count = len(in.Voters)
	}
	if told, ok, err := f.ReadStatus(ctx); ok && err == nil { // advisory: without it nobody is named
		for _, m := range told.Members {
			if v := m.Version; !v.IsZero() && !slices.Contains(r.releases, v.String()) {
				r.releases = append(r.releases, v.String())
			}
			if !m.Learner {
				r.voters = append(r.voters, cluster.Seat{Member: cluster.Member{ID: m.Member}, HostID: m.Host, Up: m.Up, RaftLeader: m.Leads})
			}
		}
	}
	return r
}

// judged: there is a spec until now that can be compared with another one.
func (r *running) judged() bool { return r.refused == nil && !r.missing }

// specUnusable: there is a spec, and it cannot be followed.
func specUnusable(err error) bool {
	return errors.Is(err, cluster.ErrSpec) || errors.Is(err, control.ErrMalformed)
}

// stillShown is an error where the spec is another than the one that a person was shown:
// the question takes as long as they like, and what was decided meanwhile stays.
func stillShown(ctx context.Context, f *control.Folder, was control.SpecRead, unusable error) error {
	is, err := f.ReadSpec(ctx)
	same := false
	switch {
	case err != nil && !specUnusable(err):
		return fmt.Errorf("re-read the spec; nothing was written: %w", err)
	case err != nil || unusable != nil:
		same = err != nil && unusable != nil && err.Error() == unusable.Error()
	case is.Spec == nil || was.Spec == nil:
		same = is.Spec == was.Spec
	default:
		same = is.Spec.Equal(*was.Spec)
	}
	if same {
		return nil
	}
	return errChangedWhileAsked
}

// errChangedWhileAsked and errChangedMeanwhile: somebody else wrote the spec, and that one
// stays until a person was shown what would become of it.
var (
	errChangedWhileAsked = errors.New("the spec changed while you were asked; nothing was written")
	errChangedMeanwhile  = errors.New("somebody else changed the spec; nothing was written")
)

// amendTries is how often a change of the spec is begun anew.
const amendTries = 3

// amending makes a change of the spec, anew where somebody else wrote it in between: it is
// read, and shown, again.
func amending(w io.Writer, change func() error) error {
	for try := 1; ; try++ {
		err := change()
		if !errors.Is(err, errChangedWhileAsked) && !errors.Is(err, errChangedMeanwhile) {
			return err
		}
		if try == amendTries {
			return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("%w, %d times in a row", err, try), Advice: "find out who changes it, and give the command again"}
		}
		fmt.Fprintf(w, "%v; as it is now:\n", err)
	}
}

// changedMeanwhile says so of a write that somebody else was before; other errors stay.
func changedMeanwhile(err error) error {
	if errors.Is(err, control.ErrConflict) {
		return errChangedMeanwhile
	}
	return err
}

// describe says what the new spec changes, and what takes that back; false: nothing.
func (r *running) describe(w io.Writer, to cluster.Spec, undo string) bool {
	if !r.judged() {
		r.describeUnjudged(w, to)
		return true
	}
	from := r.spec.MemberCount
	if r.spec.Hold && !to.Hold {
		from = r.count
	}
	moves := !slices.Equal(r.spec.Hosts, to.Hosts)
	if from == to.MemberCount && r.spec.EtcdVersion == to.EtcdVersion && !moves {
		return false
	}
	if moves {
		fmt.Fprintf(w, "hosts: %s → %s%s\n", namedHosts(r.spec.Hosts), namedHosts(to.Hosts), r.makeWay(to))
	}
	if from != to.MemberCount {
		fmt.Fprintf(w, "members: %d → %d%s; survives %s (now %d)\n", from, to.MemberCount, r.goes(to), counted(cluster.Tolerance(to.MemberCount), "failure"), cluster.Tolerance(from))
	}
	if r.spec.EtcdVersion != to.EtcdVersion {
		fmt.Fprintf(w, "etcd: %s → %s: every member is restarted with it\n", r.spec.EtcdVersion, to.EtcdVersion)
	}
	hold, lifts := "", ""
	if r.spec.Hold {
		hold, lifts = ", on hold", " (this also lifts the hold that was on it)"
	}
	fmt.Fprintf(w, "the spec until now: %s of etcd %s%s; to go back: %s%s\n", counted(r.spec.MemberCount, "member"), r.spec.EtcdVersion, hold, undo, lifts)
	return true
}

// makeWay says whose voters are moved, as far as the leading daemon told who votes.
func (r *running) makeWay(to cluster.Spec) string {
	var names []string
	for _, s := range r.voters {
		if len(to.Hosts) > 0 && s.HostID != "" && !slices.Contains(to.Hosts, s.HostID) {
			names = append(names, string(s.HostID))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": voters are moved away, one at a time: " + strings.Join(names, ", ")
}

// namedHosts are the hosts that may carry members, in words.
func namedHosts(hosts []cluster.HostID) string {
	if len(hosts) == 0 {
		return "any"
	}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = string(h)
	}
	return strings.Join(names, ",")
}

// undo is the command that takes a change back.
func (r *running) undo(url string, to cluster.Spec) string {
	command := fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", cluster.ShellWord(daemon.ShownURL(url)), r.spec.EtcdVersion, r.spec.MemberCount)
	if !slices.Equal(r.spec.Hosts, to.Hosts) {
		command += " --hosts " + cluster.ShellWord(namedHosts(r.spec.Hosts))
	}
	return command
}

// describeUnjudged is for a spec that could not be followed, or that there was none of: what
// the cluster is comes from its record, and there is nothing to go back to.
func (r *running) describeUnjudged(w io.Writer, to cluster.Spec) {
	survives := counted(cluster.Tolerance(to.MemberCount), "failure")
	if r.count == 0 {
		fmt.Fprintf(w, "members: how many members there are is not known; from now on %d; survives %s\n", to.MemberCount, survives)
	} else {
		fmt.Fprintf(w, "members: %d → %d%s; survives %s (now %d)\n", r.count, to.MemberCount, r.goes(to), survives, cluster.Tolerance(r.count))
	}
	switch runs := strings.Join(r.releases, ", "); {
	case runs == to.EtcdVersion.String():
		fmt.Fprintf(w, "etcd: %s, as the members run\n", runs)
	case runs != "":
		fmt.Fprintf(w, "etcd: %s → %s: every member that runs another version is restarted with it\n", runs, to.EtcdVersion)
	default:
		fmt.Fprintf(w, "etcd: %s: every member that runs another version is restarted with it\n", to.EtcdVersion)
	}
	if r.missing {
		fmt.Fprintln(w, "the store has no spec of this cluster until now: make sure that it is the right store (mount, bucket, prefix)")
		return
	}
	fmt.Fprintf(w, "the spec until now could not be followed: %v\n", r.refused)
}

// goes says who goes, by the order in which the daemons pick.
func (r *running) goes(to cluster.Spec) string {
	less := r.count - to.MemberCount
	if less <= 0 {
		if to.MemberCount > r.count {
			return ": adds " + counted(to.MemberCount-r.count, "member")
		}
		return ""
	}
	if len(r.voters) != r.count || !r.judged() { // which hosts it named is not known either
		return ": removes " + counted(less, "member")
	}
	spec, left := r.spec, slices.Clone(r.voters)
	spec.Hosts = to.Hosts
	var names []string
	for range less {
		s := plan.LeastWanted(spec, left)
		names = append(names, nameOf(s))
		left = slices.DeleteFunc(left, func(o cluster.Seat) bool { return o.ID == s.ID })
	}
	slices.Sort(names)
	return ": removes " + strings.Join(names, ", ")
}

func nameOf(s cluster.Seat) string {
	if s.HostID != "" {
		return string(s.HostID)
	}
	return "member " + s.ID.String()
}
