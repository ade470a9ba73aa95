// Package recovery judges who a cluster can go on from, by what daemons told a person who
// asked each of them. The planner, which decides once a command is queued, sees more.
package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

// Recovery is what is known before a recovery, and what it is to be judged by.
type Recovery struct {
	Hosts []cluster.LogEnd `json:"hosts"`
	// Unseen are the hosts whose daemons did not answer.
	Unseen []cluster.HostID `json:"unseen,omitempty"`
	// Why some of them did not.
	Why map[cluster.HostID]string `json:"why,omitempty"`
	// Incompatible are those of them whose daemons are there, and do not tell who asks:
	// they may well serve, so that none of them is given up.
	Incompatible []cluster.HostID `json:"atOdds,omitempty"`
	// Furthest is the one to recover from; empty: none holds data of a member.
	Furthest cluster.HostID `json:"furthest,omitempty"`
	// Voters are those of the newest record of the cluster.
	Voters []cluster.Voter `json:"voters,omitempty"`
	// Gone are the voters' hosts whose data nobody has seen, or whose log cannot be
	// read; a voter without a host is there by its member ID.
	Gone []cluster.HostID `json:"gone,omitempty"`
	// Reading are the hosts whose log is still being read: any of them may be the
	// furthest, so that none is named.
	Reading []cluster.HostID `json:"reading,omitempty"`
	// Quorum: the leading daemon sees one, and nothing is to be recovered.
	Quorum bool `json:"quorum,omitempty"`
	// Recorded is how far the cluster came, at least: its revision by the store's
	// record and by what hosts remember, term and index by the store's record of
	// the survivor's cluster ID alone, since they compare only within one.
	Recorded cluster.Progress `json:"recorded,omitzero"`
	// Unread is why the store's record could not be read; empty: it was, or there is
	// none.
	Unread string `json:"unread,omitempty"`
	// Command is the recovery that this asks for, without the hosts that a person has to
	// name as lost; empty also where it would give up an incompatible host, and before
	// the loss has lasted.
	Command string `json:"command,omitempty"`
	// QuorumlessSince is since when the leading daemon has seen no quorum; zero: it
	// sees one, or nobody in sight leads. Since is when hosts went out of its sight.
	QuorumlessSince time.Time                    `json:"quorumlessSince,omitzero"`
	Since           map[cluster.HostID]time.Time `json:"since,omitempty"`
	// Early is how long the loss still has to last before a recovery is offered, and After
	// how long in all.
	Early time.Duration `json:"early,omitempty"`
	After time.Duration `json:"after,omitempty"`
	// Elsewhere says that an unreachable daemon told the store since of a quorum of
	// voters that are up; empty: none did.
	Elsewhere string `json:"elsewhere,omitempty"`

	recorded     []cluster.Voter // Voters, and those that are to be
	incompatible bool            // no command is named, since it would give up an incompatible host
}

// GivesUpIncompatible reports whether no command is named since it would give up a host
// whose daemon is there.
func (r *Recovery) GivesUpIncompatible() bool { return r.incompatible }

// Judge finds who is furthest and who is missing, from Hosts and Unseen.
func (r *Recovery) Judge() {
	slices.SortFunc(r.Hosts, byHost)
	slices.Sort(r.Unseen)
	logs := sight.Furthest(reports(r.Hosts), func(*cluster.HostReport) bool { return true })
	for _, h := range logs.Unread {
		if h.Reading != nil {
			r.Reading = append(r.Reading, h.Host)
		}
	}
	if intent := r.newest(); intent != nil {
		r.Voters, r.recorded = intent.Voters, slices.Concat(intent.Voters, intent.Next)
		for _, v := range r.recorded {
			r.miss(v)
		}
	}
	best := logs.Furthest
	if best == nil || best.Log == nil || len(r.Reading) > 0 {
		return
	}
	r.Furthest = best.Host
	r.incompatible = slices.ContainsFunc(r.Voters, func(v cluster.Voter) bool {
		return v.Host != "" && v.Host != best.Host && slices.Contains(r.Unseen, v.Host) && slices.Contains(r.Incompatible, v.Host)
	})
	if !r.incompatible { // else nobody may give that host up
		r.Command = fmt.Sprintf("etcdadm recover --from %s --yes", best.Host)
	}
}

// newest is the newest intent that a host keeps. What each remembers raises the record.
func (r *Recovery) newest() (intent *cluster.Intent) {
	for _, h := range r.Hosts {
		if h.Intent.Order(intent) > 0 {
			intent = h.Intent
		}
		r.Recorded.Revision = max(r.Recorded.Revision, h.Highest.Revision)
	}
	return intent
}

// miss notes a voter whose host was not asked, or whose data nobody has seen.
func (r *Recovery) miss(v cluster.Voter) {
	seen := slices.ContainsFunc(r.Hosts, func(h cluster.LogEnd) bool { return h.Host == v.Host })
	if v.Host != "" && !seen && !slices.Contains(r.Unseen, v.Host) {
		r.Unseen = append(r.Unseen, v.Host)
	}
	there := slices.ContainsFunc(r.Hosts, func(h cluster.LogEnd) bool { return h.Member == v.Member && holds(h) })
	if name := sight.NameOf(v); !there && !slices.Contains(r.Gone, name) {
		r.Gone = append(r.Gone, name)
	}
}

// Watch notes what the leading daemon knows of the loss; nil: nobody leads. In its first
// minutes it may be a broken network as well, behind which the others serve, so that no
// command is named then; nor where nobody leads, and so nobody has watched it.
func (r *Recovery) Watch(o *cluster.Observation) {
	r.Early, r.After = cluster.DefaultDeadAfter, cluster.DefaultDeadAfter
	if o != nil {
		roster, ok := o.Roster()
		r.Quorum = ok && roster.HasQuorum()
		r.Early, r.After = generation.RecoveryOffered(o)
		r.QuorumlessSince, r.Since = o.Memory.QuorumlessSince, map[cluster.HostID]time.Time{}
		for _, h := range o.Memory.Hosts {
			if !h.GapSince.IsZero() {
				r.Since[h.Host] = h.GapSince
			}
		}
	}
	if r.Early > 0 {
		r.Command = ""
	}
}

// Hold raises what is recorded to what the store says: the revision of all generations,
// and the progress of each cluster ID.
func (r *Recovery) Hold(revision int64, of map[cluster.ClusterID]cluster.Progress) {
	r.Recorded.Revision = max(r.Recorded.Revision, revision)
	for _, h := range r.Hosts {
		if p, ok := of[h.Cluster]; ok && h.Host == r.Furthest && r.Recorded.Before(p) {
			r.Recorded.Term, r.Recorded.Index = p.Term, p.Index
		}
	}
}

// Told is what a leading daemon wrote into the store of its voters.
type Told struct {
	Leader     cluster.HostID
	At         time.Time
	Voters, Up int
}

// Heard holds what an unreachable daemon wrote into the store against what this side
// sees: where it had a quorum since, the cluster serves, and no command is named.
func (r *Recovery) Heard(t Told) {
	if !slices.Contains(r.Unseen, t.Leader) || r.QuorumlessSince.IsZero() || !t.At.After(r.QuorumlessSince) || t.Voters == 0 || t.Up < cluster.Quorum(t.Voters) {
		return
	}
	r.Command = ""
	r.Elsewhere = fmt.Sprintf("host %s, which does not answer here, wrote into the backup store at %s that %d of %d voters are up: the cluster serves, and this side is cut off",
		t.Leader, t.At.UTC().Format(time.RFC3339), t.Up, t.Voters)
}

// Missing are the voters' hosts whose data this side lacks, and what is known of each.
func (r *Recovery) Missing() (out []string) {
	for _, v := range r.Voters {
		unseen := slices.Contains(r.Unseen, v.Host)
		switch since, known := r.Since[v.Host]; {
		case v.Host == "" || v.Host == r.Furthest || !unseen && !slices.Contains(r.Gone, v.Host):
		case !unseen:
			out = append(out, string(v.Host)+" answers, and has no data or none that can be read")
		case known:
			out = append(out, fmt.Sprintf("%s is unreachable since %s", v.Host, since.UTC().Format(time.RFC3339)))
		default:
			out = append(out, fmt.Sprintf("%s is unreachable", v.Host))
		}
	}
	return out
}

// Objection is what speaks against a recovery as things are.
type Objection struct {
	Why      string         // empty: nothing
	Rejected bool           // else it waits until that is otherwise
	Further  cluster.HostID // the host to recover from instead, where it is that
}

// Against is why a recovery from a host, with others named as lost, would not be carried
// out as things are.
func (r *Recovery) Against(from cluster.HostID, lost []cluster.HostID) Objection {
	all := reports(r.Hosts)
	i := slices.IndexFunc(r.Hosts, func(h cluster.LogEnd) bool { return h.Host == from })
	switch {
	case r.Quorum:
		return rejected("the cluster has a quorum; no recovery is needed")
	case r.Elsewhere != "":
		return rejected("%s", r.Elsewhere)
	case i < 0:
		return waits("host %s, the survivor, is unreachable", from)
	case !r.Hosts[i].HasData || r.Hosts[i].State != cluster.MemberStarted:
		return rejected("host %s holds no data of a member that could be recovered from", from)
	case !holds(r.Hosts[i]):
		return waits("the log of host %s cannot be read", from)
	}
	further, reading := sight.Rivals(all, &all[i])
	if r.Hosts[i].Reading != nil {
		reading = append(reading, &all[i])
	}
	if further != nil {
		o := rejected("host %s is further than %s", further.Host, from)
		o.Further = further.Host
		return o
	}
	for _, h := range reading {
		if !sight.Lost(voterOf(h.Host, h.Local.Member), lost) {
			return waits("the log of %s is still being read: ask again when that is through", h.Host)
		}
	}
	return r.againstLost(from, lost)
}

// againstLost judges the hosts that are named as lost, and whether those that are not are
// enough to know who is furthest.
func (r *Recovery) againstLost(from cluster.HostID, lost []cluster.HostID) Objection {
	if why := r.AliveLost(lost); why != "" {
		return rejected("%s", why)
	}
	missing := slices.DeleteFunc(slices.Clone(r.Gone), func(id cluster.HostID) bool {
		return slices.ContainsFunc(r.recorded, func(v cluster.Voter) bool { return sight.NameOf(v) == id && sight.Lost(v, lost) })
	})
	if n := len(r.Voters); n-len(missing) < n-n/2 {
		return waits("the logs of too few voters can be read to know that host %s is the furthest: bring %s back, or name with --lost what is gone for good", from, words.IdList(missing))
	}
	for _, h := range r.Hosts {
		// One whose log cannot be read may be given up: nothing of it can be had.
		if sight.Lost(voterOf(h.Host, h.Member), lost) && holds(h) {
			return rejected("host %s is named as lost, and its daemon answers and has the data of a member: stop it for good first", h.Host)
		}
	}
	return Objection{}
}

// AliveLost is why hosts that are named as lost are not; empty: nothing is known against
// it.
func (r *Recovery) AliveLost(lost []cluster.HostID) string {
	for _, id := range r.Incompatible {
		named := slices.Contains(lost, id) || slices.ContainsFunc(r.Voters, func(v cluster.Voter) bool { return v.Host == id && sight.Lost(v, lost) })
		if named {
			return fmt.Sprintf("host %s is named as lost, but its daemon's address answers without telling how far its log goes: %s. If that is its daemon, fix what keeps it from answering and try again, or power the machine off. If the host is gone for good and something else has its address, run the command with --store alone (no --data-dir, no --endpoint)", id, r.Why[id])
		}
	}
	return ""
}

// FurthestAside is the data of a cluster that goes furthest of what hosts set aside, and
// its host, where its log ends beyond a point; empty: none does.
func FurthestAside(hosts []cluster.LogEnd, of cluster.ClusterID, beyond cluster.Progress) (cluster.HostID, cluster.SetAside) {
	return sight.FurthestAside(reports(hosts), of, beyond)
}

// reports are what hosts told, as the planner compares it.
func reports(ends []cluster.LogEnd) (out []cluster.HostReport) {
	for _, e := range ends {
		out = append(out, e.Report())
	}
	return out
}

// voterOf is a host's member as a person may name it: by the host, or by its member ID.
func voterOf(h cluster.HostID, m cluster.MemberID) cluster.Voter {
	return cluster.Voter{Host: h, Member: m}
}

// holds reports whether a host has data whose log can be read, or may be.
func holds(h cluster.LogEnd) bool { return h.HasData && (h.Log != nil || h.Reading != nil) }

func byHost(a, b cluster.LogEnd) int { return cmp.Compare(a.Host, b.Host) }

func rejected(format string, args ...any) Objection {
	return Objection{Why: fmt.Sprintf(format, args...), Rejected: true}
}

func waits(format string, args ...any) Objection {
	return Objection{Why: fmt.Sprintf(format, args...)}
}
