package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

// survivors is what is known before a recovery.
type survivors struct {
	Hosts []console.LogEnd `json:"hosts"`
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
	// read.
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
	// Would is what is asked for with --dry-run, where nothing speaks against it.
	Would *wouldQueue `json:"would,omitempty"`
	// Command is the recovery that this asks for, without the hosts that a person has to
	// name as lost; empty also where it would give up a host that is at odds, and before
	// the loss has lasted.
	Command string `json:"command,omitempty"`
	// QuorumlessSince is since when the leading daemon has seen no quorum; zero: it
	// sees one, or nobody in sight leads. Since is when hosts went out of its sight.
	QuorumlessSince time.Time                    `json:"quorumlessSince,omitzero"`
	Since           map[cluster.HostID]time.Time `json:"since,omitempty"`
	// Early is how long it still has to last before a recovery is offered, and After how
	// long in all.
	Early time.Duration `json:"early,omitempty"`
	After time.Duration `json:"after,omitempty"`
	// Elsewhere says that a daemon out of sight told the store since of a quorum of
	// voters that are up; empty: none did.
	Elsewhere string `json:"elsewhere,omitempty"`

	by           reach // how the daemons were reached
	incompatible bool  // no command is named, since it would give up a host that is at odds
}

// survivors asks every daemon that is known how far its member's log goes.
// Nothing is promised or stopped for it.
func (q *queue) survivors(ctx context.Context) (survivors, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, o, err := q.inSight(ctx)
	if err != nil {
		return out, err
	}
	if err := q.record(ctx, o, &out); err != nil {
		out.Unread = err.Error()
	}
	return out, nil
}

// inSight is what the daemons say, without the store's record, and the observation that
// it is held against.
func (q *queue) inSight(ctx context.Context) (out survivors, o *cluster.Observation, err error) {
	out.by = q.reach
	conn, err := q.open()
	if err != nil {
		return out, nil, err
	}
	defer conn.Close()
	report, err := noCluster(conn.Status(ctx))
	if err != nil {
		return out, nil, err
	}
	var unseen map[cluster.HostID]error
	if out.Hosts, unseen, err = logEnds(ctx, conn, report.Contacts); err != nil {
		return out, nil, err
	}
	out.miss(unseen)
	out.judge()
	o = report.Observation
	out.watch(o)
	return out, o, nil
}

// watch notes what the leading daemon knows of the loss. In its first minutes it may
// be a broken network as well, behind which the others serve, so that no command is
// named then; nor where nobody leads, and so nobody has watched it.
func (s *survivors) watch(o *cluster.Observation) {
	s.Early, s.After = cluster.DefaultDeadAfter, cluster.DefaultDeadAfter
	if o != nil {
		roster, ok := o.Roster()
		s.Quorum = ok && roster.HasQuorum()
		s.Early, s.After = plan.RecoveryOffered(o)
		s.QuorumlessSince, s.Since = o.Memory.QuorumlessSince, map[cluster.HostID]time.Time{}
		for _, h := range o.Memory.Hosts {
			if !h.GapSince.IsZero() {
				s.Since[h.Host] = h.GapSince
			}
		}
	}
	if s.Early > 0 {
		s.Command = ""
	}
}

// elsewhere holds what a daemon out of sight wrote into the store against what this
// side sees.
func (s *survivors) elsewhere(told control.Status) {
	voters, up := 0, 0
	for _, m := range told.Members {
		if !m.Learner {
			voters++
			if m.Up {
				up++
			}
		}
	}
	if slices.Contains(s.Unseen, told.Leader) && !s.QuorumlessSince.IsZero() && told.At.After(s.QuorumlessSince) && voters > 0 && up >= cluster.Quorum(voters) {
		s.Elsewhere = fmt.Sprintf("host %s, which does not answer here, wrote into the backup store at %s that %d of %d voters are up: the cluster serves, and this side is cut off", told.Leader, told.At.UTC().Format(time.RFC3339), up, voters)
		s.Command = ""
	}
}

// missing are the voters' hosts whose data this side lacks, and what is known of each.
func (s *survivors) missing() (out []string) {
	for _, v := range s.Voters {
		switch since, known := s.Since[v.Host]; {
		case v.Host == "" || v.Host == s.Furthest || !slices.Contains(s.Unseen, v.Host) && !slices.Contains(s.Gone, v.Host):
		case !slices.Contains(s.Unseen, v.Host):
			out = append(out, string(v.Host)+" answers, and has no data or none that can be read")
		case known:
			out = append(out, fmt.Sprintf("%s is unreachable since %s", v.Host, since.UTC().Format(time.RFC3339)))
		default:
			out = append(out, fmt.Sprintf("%s is unreachable", v.Host))
		}
	}
	return out
}

// miss notes the hosts that did not answer, and why.
func (s *survivors) miss(unseen map[cluster.HostID]error) {
	s.Why = map[cluster.HostID]string{}
	for _, id := range slices.Sorted(maps.Keys(unseen)) {
		s.Unseen, s.Why[id] = append(s.Unseen, id), unseen[id].Error()
		if err := unseen[id]; peer.IsThere(err) || errors.As(err, new(cannotTell)) {
			s.Incompatible = append(s.Incompatible, id)
		}
	}
}

// cannotTell is why a daemon that answers cannot tell what its host holds: that starts, or
// waits for its disk, and may come up with a quorum and the furthest log.
type cannotTell string

func (c cannotTell) Error() string { return string(c) }

// record holds what is known against the store's record.
func (q *queue) record(ctx context.Context, o *cluster.Observation, s *survivors) error {
	f, err := q.folder(ctx, o, toRead)
	if err != nil {
		return err
	}
	r, err := f.ReadRecord(ctx)
	if err == nil {
		s.hold(r)
	}
	if told, ok, unread := f.ReadStatus(ctx); ok && unread == nil {
		s.elsewhere(told)
	}
	return err
}

// logEnds asks daemons what they hold, and says of those that do not answer why. That
// they do, and that this certificate may not ask, is an error.
func logEnds(ctx context.Context, conn *console.Console, contacts []cluster.Contact) (ends []console.LogEnd, unseen map[cluster.HostID]error, refused error) {
	unseen = map[cluster.HostID]error{}
	var mu sync.Mutex // guards the results
	var all sync.WaitGroup
	for _, at := range contacts {
		all.Go(func() {
			end, err := conn.LogEnd(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, peer.ErrRole):
				refused = err
				return
			case err != nil:
				unseen[at.Host] = err
				return
			case end.Unknown != "":
				unseen[at.Host] = cannotTell(end.Unknown)
				return
			}
			ends = append(ends, end)
		})
	}
	all.Wait()
	slices.SortFunc(ends, func(a, b console.LogEnd) int { return cmp.Compare(a.Host, b.Host) })
	return ends, unseen, refused
}

// reports are what hosts told, as the planner reads it.
func (s *survivors) reports() []cluster.HostReport { return asReports(s.Hosts) }

func asReports(ends []console.LogEnd) (out []cluster.HostReport) {
	for _, e := range ends {
		local := cluster.LocalMember{Generation: e.Generation, Cluster: e.Cluster, Member: e.Member, State: e.State, HasData: e.HasData}
		out = append(out, cluster.HostReport{HostState: cluster.HostState{Host: e.Host, Local: local, Log: e.Log, Reading: e.Reading, Highest: e.Highest, SetAside: e.SetAside}})
	}
	return out
}

// judge finds who is furthest, and who is missing.
func (s *survivors) judge() {
	slices.SortFunc(s.Hosts, func(a, b console.LogEnd) int { return cmp.Compare(a.Host, b.Host) })
	slices.Sort(s.Unseen)
	var intent *cluster.Intent
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Intent.Order(intent) > 0 {
			intent = h.Intent
		}
		s.Recorded.Revision = max(s.Recorded.Revision, h.Highest.Revision)
	}
	logs := plan.Furthest(s.reports())
	for _, h := range logs.Unread {
		if h.Reading != nil {
			s.Reading = append(s.Reading, h.Host)
		}
	}
	if intent != nil {
		s.Voters = intent.Voters
		for _, v := range slices.Concat(intent.Voters, intent.Next) {
			seen := slices.ContainsFunc(s.Hosts, func(h console.LogEnd) bool { return h.Host == v.Host })
			if v.Host != "" && !seen && !slices.Contains(s.Unseen, v.Host) {
				s.Unseen = append(s.Unseen, v.Host)
			}
			there := slices.ContainsFunc(s.Hosts, func(h console.LogEnd) bool {
				return h.Member == v.Member && h.HasData && (h.Log != nil || h.Reading != nil)
			})
			if !there && !slices.Contains(s.Gone, v.Host) {
				s.Gone = append(s.Gone, v.Host)
			}
		}
	}
	best := logs.Furthest
	if best == nil || best.Log == nil || len(s.Reading) > 0 {
		return
	}
	s.Furthest = best.Host
	for _, v := range s.Voters { // those out of sight, and those that came back without their data
		if v.Host != "" && v.Host != best.Host && slices.Contains(s.Unseen, v.Host) && slices.Contains(s.Incompatible, v.Host) {
			s.incompatible = true
			return // nobody may give that host up
		}
	}
	s.Command = fmt.Sprintf("etcdadm recover --from %s --yes", best.Host)
}

// hold raises what is recorded to what the store says of the survivor's cluster.
func (s *survivors) hold(r control.Record) {
	s.Recorded.Revision = max(s.Recorded.Revision, r.Revision)
	for _, h := range s.Hosts {
		for _, c := range r.Clusters {
			if p := (cluster.Progress{Term: c.Term, Index: c.Index}); h.Host == s.Furthest && c.Cluster == h.Cluster && s.Recorded.Before(p) {
				s.Recorded.Term, s.Recorded.Index = p.Term, p.Index
			}
		}
	}
}

// aliveLost is why hosts that are named as lost are not; empty: nothing is known against
// it.
func (s *survivors) aliveLost(lost []cluster.HostID) string {
	for _, id := range s.Incompatible {
		named := slices.Contains(lost, id) || slices.ContainsFunc(s.Voters, func(v cluster.Voter) bool {
			return v.Host == id && slices.Contains(lost, cluster.HostID(v.Member.String()))
		})
		if named {
			return fmt.Sprintf("host %s is named as lost, but its daemon's address answers without telling how far its log goes: %s. If that is its daemon, fix what keeps it from answering and try again, or power the machine off. If the host is gone for good and something else has its address, run the command with --store alone (no --data-dir, no --endpoint)", id, s.Why[id])
		}
	}
	return ""
}

// refuseAlive refuses to queue a command that gives up a host whose daemon answers. The
// leading daemon may be the one that is wrong, and cannot know. Where only the store is
// named, or no daemon answers, nobody is asked.
func (q *queue) refuseAlive(ctx context.Context) error {
	if len(q.lost) == 0 || q.dataDir == "" && len(q.endpoints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, _, err := q.inSight(ctx)
	switch {
	case err != nil && q.store == "":
		return err
	case err != nil:
		return nil
	}
	if why := s.aliveLost(q.lostHosts()); why != "" {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued: " + why)}
	}
	return nil
}
