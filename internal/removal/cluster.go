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
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/setup"
	"etcdadm.io/plan"
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
		if one.Kind == setup.KindData && holdsMember(one.Path) {
			return one.Path
		}
	}
	return ""
}

// never tells whether an agent of this data directory was never a part of a cluster, and has no member to take over either.
func never(dataDir string) bool {
	if holdsMember(dataDir) {
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

// leaving is the goal. The spec's member count is on hold meanwhile: else the leader would give this host a new member.
func leaving(id cluster.MemberID, noBackup bool) plan.Goal {
	return plan.Goal{Kind: plan.Leave, Member: id, Hold: true, NoBackup: noBackup}
}

// behind is what stays in the cluster if this host goes without its leave.
func (j *job) behind(m *Member) []Left {
	if m != nil && m.Voters == 1 && !m.Learner || j.Host == "" {
		return nil
	}
	host := cluster.ShellWord(string(j.Host))
	return []Left{
		{"the member of host " + string(j.Host) + ", if the cluster lists one", "etcdadm member remove " + host},
		{"host " + string(j.Host) + ", as one that does not answer", "etcdadm host forget " + host},
	}
}

// leave has the leading daemon remove the member. It says what is waited for.
func (h *Host) leave(ctx context.Context, p Plan, o Options) error {
	c, err := h.open(p.job, false)
	if err != nil {
		return err
	}
	defer c.Close()
	most := orElse(o.Wait, DefaultWait)
	ctx, cancel := context.WithTimeout(ctx, most+lookTimeout)
	defer cancel()
	h.say("removing member %s from cluster %s; this waits %s at most", p.Member.ID, p.Cluster, most)
	telling, told := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.retell(telling, c)
	}()
	result, err := c.Goal(ctx, manager.GoalRequest{Goal: leaving(p.Member.ID, o.NoBackup), Within: most})
	told()
	<-ended
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted before the member was removed; nothing was changed here: %w", err)
	case err != nil:
		return &Error{Problem: "have the leading daemon remove the member", Err: err, Advice: "run the command again to go on"}
	case result.Outcome == manager.GoalDone:
		return nil
	case result.Outcome == manager.GoalExpired:
		return &Error{Problem: "the member was not removed within " + most.String() + ": " + result.Decision.Reason.String(), Err: ErrWaiting, Advice: "run the command again, with a longer --wait if it only needs more time; " + byForce}
	}
	return &Error{Problem: result.Decision.Reason.String(), Err: ErrUnsafe, Advice: "etcdadm status says what to do; " + byForce}
}

// retell says what the leading daemon waits for, each thing once, until the context ends.
func (h *Host) retell(ctx context.Context, c Cluster) {
	said := ""
	for waitFor(ctx, again) == nil {
		r, err := c.Status(ctx)
		if err != nil || r.Decision == nil || r.Decision.Done || ctx.Err() != nil {
			continue
		}
		if why := r.Decision.Reason.String(); why != said {
			said = why
			h.say("waiting: %s", why)
		}
	}
}

// awaitKeepers waits until the other hosts keep the cluster's record without this one. Without a shared store the record
// would else wait for this host: of two keepers, for ever.
func (h *Host) awaitKeepers(ctx context.Context, j *job) error {
	c, err := h.open(j, false)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.keep, keepTimeout))
	defer cancel()
	said := false
	for {
		r, err := c.Status(ctx)
		if err == nil && r.Leading && !slices.Contains(r.Keepers, j.Host) {
			return nil
		}
		if !said {
			h.say("waiting: the other hosts take over this host's part of the cluster's record")
			said = true
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return err
		} else if err != nil {
			return &Error{Problem: "the cluster's record still counts on this host", Err: ErrWaiting, Advice: "run the command again; " + byForce + ", and the record may not be writable any more"}
		}
	}
}

// tell has the other hosts follow the spec again, and forget this one where the cluster has let it go. What could not be
// told is left behind.
func (h *Host) tell(ctx context.Context, j *job) (left []Left, err error) {
	if len(j.Others) == 0 || j.Forced && !j.Lift {
		return nil, nil
	}
	c, err := h.open(j, true)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.tell, tellTimeout))
	defer cancel()
	if j.Lift {
		if err := h.lift(ctx, j, c); err != nil {
			return nil, &Error{Problem: "have the cluster follow its spec again, which was on hold for this", Err: err, Advice: "run the command again to go on"}
		}
	}
	if j.Forced {
		return nil, nil
	}
	return h.forget(ctx, j, c)
}

// folder is where the cluster has its spec.
func (h *Host) folder(ctx context.Context, j *job, c Cluster) (*control.Folder, error) {
	s, err := setup.ReadSettings(h.Paths)
	if err != nil {
		return nil, err
	}
	if _, ok := kept.DataDir(s.Store()); ok {
		return control.New(c.Kept(), j.Cluster).Known(), nil
	}
	return setup.OpenFolder(ctx, s)
}

// held tells whether the spec is on hold, by the spec itself: what the leading daemon has observed is some seconds old,
// and may be of before an earlier run was called off.
func (h *Host) held(ctx context.Context, j *job) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.look, lookTimeout))
	defer cancel()
	c, err := h.open(j, false)
	if err != nil {
		return false, err
	}
	defer c.Close()
	folder, err := h.folder(ctx, j, c)
	if err != nil {
		return false, err
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil {
		return false, err
	}
	return read.Spec != nil && read.Spec.Hold, nil
}

// unhold has the spec followed again, and makes sure of it: a leader that was just taking the step may put it on hold
// once more.
func (h *Host) unhold(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, callOffTimeout)
	defer cancel()
	c, err := h.open(j, false)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		if err := h.lift(ctx, j, c); err != nil {
			return err
		}
		if err := waitFor(ctx, orElse(h.bounds.sure, sureAfter)); err != nil {
			return err
		}
		if held, err := h.held(ctx, j); err != nil || !held {
			return err
		}
	}
}

// lift ends the hold that the removal put on the spec.
func (h *Host) lift(ctx context.Context, j *job, c Cluster) error {
	folder, err := h.folder(ctx, j, c)
	if err != nil {
		return err
	}
	for {
		if err = folder.Hold(ctx, false); err == nil {
			return nil
		}
		if waitFor(ctx, again) != nil { // a new leader is being elected
			return err
		}
	}
}

// forget asks each daemon, until it does not count this host as there any more. Interrupted, it is not done.
func (h *Host) forget(ctx context.Context, j *job, c Cluster) ([]Left, error) {
	waiting := slices.Clone(j.Others)
	said := false
	for {
		waiting = slices.DeleteFunc(waiting, func(at cluster.Contact) bool {
			f, err := c.Forget(ctx, at, j.Host)
			return err == nil && f.Refuse == ""
		})
		if len(waiting) == 0 {
			return nil, nil
		}
		if !said {
			h.say("waiting: the other hosts forget host %s", j.Host)
			said = true
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("interrupted: %w; run the command again to go on", err)
		} else if err != nil {
			break
		}
	}
	var names []string
	for _, at := range waiting {
		names = append(names, string(at.Host))
	}
	return []Left{{fmt.Sprintf("host %s, as one that does not answer: %s did not take it in that it is gone", j.Host, strings.Join(names, ", ")), "etcdadm host forget " + cluster.ShellWord(string(j.Host))}}, nil
}
