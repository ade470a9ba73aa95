package removal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/setup"
)

// open connects with the daemons that this machine knows of, its own one first.
func (h *Host) open(j *job, others bool) (Cluster, error) {
	a, err := console.ReadAccess(j.DataDir)
	if err != nil {
		return nil, err
	}
	own := a.Endpoints
	if others {
		a.Endpoints = nil
	}
	add := func(endpoint string) {
		if _, _, err := net.SplitHostPort(endpoint); err == nil && !slices.Contains(a.Endpoints, endpoint) && (!others || !slices.Contains(own, endpoint)) {
			a.Endpoints = append(a.Endpoints, endpoint)
		}
	}
	for _, c := range j.Others {
		add(c.Endpoint)
	}
	if state, err := datadir.KnownState(j.DataDir); err == nil {
		for _, p := range state.Peers {
			add(p.Address)
		}
	}
	if s, err := setup.ReadSettings(h.Paths); err == nil {
		for _, endpoint := range strings.Split(s.Flag("discovery"), ",") {
			add(endpoint)
		}
	}
	if len(a.Endpoints) == 0 {
		return nil, console.ErrNoDaemon
	}
	return h.connect(a)
}

// oneLine is an error in one line: each daemon that was asked has its own.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

const byForce = "with --force this machine is reset alone"

// lookAtCluster fills in what the cluster says; keep: the member is to stay listed.
func (h *Host) lookAtCluster(ctx context.Context, p *Plan, keep bool) {
	j := p.job
	unreachable := func(why string) {
		_, words := setup.RunnerOf(h.Paths)
		p.Hindrance = &Hindrance{Unreachable, why, "look at " + words.State + ", and run it again once the cluster answers; if it is gone for good: " + byForce}
	}
	switch {
	case j.Unreadable != "":
		p.Hindrance = &Hindrance{Unknown, j.Unreadable, "mend that file; " + byForce}
		return
	case j.Host == "": // init or join did not come as far as a host
		if dir := j.holder(); dir != "" {
			p.Hindrance = &Hindrance{
				Unknown, dir + " has the data of a member, and no settings say which cluster lists it: init or join was interrupted, or the settings are gone",
				"run that init or join again, with --adopt where an etcd is taken over, or go back to that etcd; " + byForce,
			}
			p.Left = []Left{{What: "the member that has its data in " + dir + ", if a cluster lists it"}}
		}
		return
	case j.DataDir == "":
		p.Hindrance = &Hindrance{
			Unknown, fmt.Sprintf("the data directory of host %s is not there, or nothing in it is an agent's: whether cluster %s lists the host is not known", j.Host, j.Cluster),
			"mount it, or mend its disk, and run it again; " + byForce,
		}
		p.Left = j.behind(nil)
		return
	}
	c, err := h.open(j, false)
	if err != nil {
		if never(j.DataDir) {
			return
		}
		unreachable(fmt.Sprintf("no daemon of cluster %s can be asked: %s", j.Cluster, oneLine(err)))
		p.Left = j.behind(nil)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.look, lookTimeout))
	defer cancel()
	report, err := observed(ctx, c)
	if err != nil {
		unreachable(fmt.Sprintf("cluster %s does not answer: %s", j.Cluster, oneLine(err)))
		p.Left = j.behind(nil)
		return
	}
	p.observation = report.Observation
	j.Others = nil
	for _, at := range report.Contacts {
		if at.Host != j.Host {
			j.Others = append(j.Others, at)
		}
	}
	h.judge(ctx, c, report, p, keep)
	if p.Hindrance != nil {
		p.Left = j.behind(p.Member)
	}
}

// holder is a directory that would be taken away, and has a member's data; empty: none.
func (j *job) holder() string {
	for _, one := range j.Items {
		if one.Kind == setup.KindData && setup.HoldsMember(one.Path) {
			return one.Path
		}
	}
	return ""
}

// never tells whether an agent of this data directory was never a part of a cluster, and has no member to take over either.
func never(dataDir string) bool {
	if setup.HoldsMember(dataDir) {
		return false
	}
	state, err := datadir.KnownState(dataDir)
	return err != nil && !there(filepath.Join(dataDir, "etcdadm", "state.json")) || err == nil && state.Local.State == cluster.MemberNone && state.Intent == nil
}

// observed is the leading daemon's report, with what it sees.
func observed(ctx context.Context, c Cluster) (console.Report, error) {
	for {
		r, err := c.Status(ctx)
		if err != nil {
			return r, err
		}
		if r.Observation != nil && r.Decision != nil {
			return r, nil
		}
		if err := waitFor(ctx, again); err != nil {
			return r, errors.New("no daemon leads")
		}
	}
}

// judge finds the member of this host, and what its removal would do, or its end where it stays listed.
func (h *Host) judge(ctx context.Context, c Cluster, r console.Report, p *Plan, keep bool) {
	roster, seen := r.Observation.Roster()
	voters, up := roster.Count()
	if i := slices.IndexFunc(roster.Seats, func(s cluster.Seat) bool {
		return s.HostID == p.Host || s.Owner != nil && s.Owner.Host == p.Host
	}); i >= 0 {
		s := roster.Seats[i]
		p.Member = &Member{ID: s.ID, Learner: s.Learner, Leads: s.RaftLeader, Voters: voters, Up: up}
		others := up
		if s.Up && !s.Learner {
			others--
		}
		left := voters - 1
		if keep { // a voter that is listed counts, though it is down for good
			left = voters
		}
		if seen && roster.Linearizable && !s.Learner && voters > 1 && others < cluster.Quorum(left) {
			p.Hindrance = &Hindrance{NoQuorum, fmt.Sprintf("without this host too few voters would be up: %d of %d, and %d are needed", others, left, cluster.Quorum(left)),
				"bring the other voters up first: etcdadm status; " + byForce}
			return
		}
	}
	if last := lastHolder(r.Observation, p.Host); last != nil {
		p.Hindrance = last
		return
	}
	switch {
	case !seen || !roster.Linearizable:
		p.Hindrance = &Hindrance{NoQuorum, "the cluster has no quorum, so no member can be removed: " + r.Decision.Reason.String(), "etcdadm status says what to do; " + byForce}
		return
	case p.Member == nil:
		p.wait = true
		return
	case !p.Member.Learner && voters == 1:
		p.Hindrance = &Hindrance{LastMember, "this is the last voter: without it cluster " + p.Cluster + " ends, and all its data is on this machine",
			"take a backup first: etcdadm backup create; " + byForce + ", and the cluster ends"}
		return
	}
	if r.Observation.Wanted() == nil { // the step puts it on hold, and nobody could say what it was before
		p.Hindrance = &Hindrance{Refused, "the cluster has no spec that can be followed", "etcdadm status says why; mend the spec first; " + byForce}
		return
	}
	planned, err := c.Goal(ctx, manager.GoalRequest{Goal: leaving(p.Member.ID, false), DryRun: true, Within: orElse(h.bounds.look, lookTimeout)})
	switch {
	case err != nil:
		p.Hindrance = &Hindrance{Unreachable, "the leading daemon cannot be asked: " + err.Error(), "run it again; " + byForce}
	case planned.Decision.Refused:
		p.Hindrance = &Hindrance{Refused, "the leading daemon refuses: " + planned.Decision.Reason.String(), "etcdadm status says what to do; " + byForce}
	default:
		p.wait = true
	}
}

// lastHolder is why a host stays that no other one in sight could take the place of: who holds no authorities' keys cannot
// have its certificates renewed without it, and nobody could join any more.
func lastHolder(o *cluster.Observation, host cluster.HostID) *Hindrance {
	holders, without := o.KeyHolders()
	if len(without) == 0 || len(holders) != 1 || holders[0] != host {
		return nil
	}
	other := cluster.ShellWord(string(without[0]))
	return &Hindrance{
		LastHolder, fmt.Sprintf("no other host in sight holds the authorities' keys: host %s could not renew its certificates, and nobody could join", without[0]),
		"give them to another host first: etcdadm token create --uses 1 --host " + other + " here, and its line there with --again; " + byForce,
	}
}
