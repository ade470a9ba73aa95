package takeover

import (
	"context"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// rejoin is what a person does for a host that can not go on with what it has.
const rejoin = "let the host rejoin with an empty data directory; in Kubernetes, delete its claim and its pod, and another host takes its place"

// enter makes the first start of a member that was added for this host to a cluster
// that something else runs. The answer is what that waits for; nil: for nothing.
// Like a take-over it asks no leader, but the store. The caller runs a task.
func (t *TakeOver) enter(ctx context.Context, s record.State) *cluster.Predecessor {
	a, err := t.Disk.Admission()
	switch {
	case err != nil:
		return &cluster.Predecessor{Waits: err.Error(), Hint: "make the data directory or volume readable, or run etcdadm adopt --join again"}
	case a == nil || s.Floor() > 0:
		return nil // none, or one that served
	case a.Member != 0 && s.GaveUp(a.Member): // nothing of it lies here any more, so that the report names none
		return &cluster.Predecessor{
			Token: a.Token, Cluster: a.Cluster, Waits: fmt.Sprintf("this disk gave up member %s, whose data was lost or rolled back, and never starts it again", a.Member),
			Hint: fmt.Sprintf("remove the member if it is still listed (etcdctl member remove %s), and %s", a.Member, rejoin),
		}
	}
	report := &cluster.Predecessor{Token: a.Token, Cluster: a.Cluster, Member: a.Member}
	launch, why, hint := t.launchAdmitted(ctx, s, a)
	if why == "" {
		r := t.Start(ctx, s, launch, cluster.LocalMember{Token: a.Token, Cluster: a.Cluster, Member: a.Member, Adopted: true})
		if r.Outcome == cluster.OutcomeDone || t.Keeper.Now().Local.Member == a.Member {
			t.Log.Info("joins the cluster that something else runs", "member", a.Member, "of cluster", a.Cluster, "version", launch.Version)
			t.Inventory.Refresh()
			return nil // what keeps the process from running is said like for any member
		}
		why, hint = r.Reason, r.Hint
	}
	report.Waits, report.Hint = why, hint
	return report
}

// Admitted reports whether a host without a member was given a place since the last look, or has given
// it up, which enter tells.
func (t *TakeOver) Admitted() bool {
	t.mu.Lock()
	waits := t.waits != nil // and is looked at anyway
	t.mu.Unlock()
	s := t.Keeper.Now()
	if waits || s.Local.State != cluster.MemberNone || s.Journal != nil || s.Floor() > 0 {
		return false
	}
	a, err := t.Disk.Admission()
	return err == nil && a != nil
}

// launchAdmitted is how the member is to be run, or why it is not.
func (t *TakeOver) launchAdmitted(ctx context.Context, s record.State, a *record.Admission) (l record.Launch, why, hint string) {
	const again = "run etcdadm adopt --join again on this host"
	switch {
	case a.Member == 0:
		return l, "no member was added for this host yet", again
	case slices.Contains(a.Known, a.Member):
		return l, fmt.Sprintf("member %s existed before this host was prepared, so it is not this disk's", a.Member), rejoin
	case !member.SameSet(a.URLs.Peer, t.URLs.Peer) && !cluster.TurnsTLSOn(a.URLs.Peer, t.URLs.Peer):
		return l, fmt.Sprintf("member %s was added with the peer URLs %v, this host listens at %v", a.Member, a.URLs.Peer, t.URLs.Peer), "give the daemon the command line that etcdadm adopt printed"
	case !slices.Contains(t.Releases(), a.Version):
		return l, fmt.Sprintf("this host has no etcd %s", a.Version), fmt.Sprintf("run etcdadm download %s on this host, or unpack the release into /opt/etcd-v%s; it is taken up within ten seconds", a.Version, a.Version)
	}
	if why, hint = t.Obstacle(s); why != "" {
		return l, why, hint
	}
	if why, _ = t.fitsClients(a.URLs); why != "" {
		return l, why, "give the daemon the command line that etcdadm adopt printed"
	}
	if why, hint = t.markerIsTheirs(ctx); why != "" {
		return l, why, hint
	}
	if why, hint = t.neverVoted(ctx, a.Member); why != "" {
		return l, why, hint
	}
	urls := t.URLs
	urls.Peer = slices.Clone(a.URLs.Peer) // without TLS while the members are: the planner turns it on (docs/adr/019-tls.md)
	return record.Launch{
		Version: a.Version, Token: a.Token, URLs: urls, Adopted: true, Options: slices.Clone(a.Options),
		InitialCluster: member.NamedMembers(a.Members, a.Member, s.Host),
	}, "", ""
}

// neverVoted: an admission lies on the disk for ever, and a disk can go back to
// before the first start. Before a learner is promoted that is written into the
// store, so that none which may have voted is started without its log.
func (t *TakeOver) neverVoted(ctx context.Context, m cluster.MemberID) (why, hint string) {
	if t.Promoted == nil {
		return "this daemon cannot tell whether the member has voted", ""
	}
	ctx, cancel := context.WithTimeout(ctx, work.ReadDeadline)
	defer cancel()
	switch promoted, err := t.Promoted(ctx, m); {
	case err != nil:
		return fmt.Sprintf("whether member %s has voted cannot be read from the store: %v", m, err), "make the backup store readable for this host"
	case promoted:
		return fmt.Sprintf("member %s was promoted, and this disk has no log of it: the disk went back in time, or lost its data", m),
			fmt.Sprintf("remove the member (etcdctl member remove %s), and %s", m, rejoin)
	}
	return "", ""
}
