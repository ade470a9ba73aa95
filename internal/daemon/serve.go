package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/plan"
)

// handler answers what arrives on the daemons' port.
type handler struct{ d *daemon }

func (h handler) Ping(ctx context.Context, _ peer.Caller, p cluster.Ping) (cluster.Ping, error) {
	if p.Refused == "" {
		h.d.words.heard(p.Host)
	}
	return h.d.manager.Ping(ctx, p)
}

func (h handler) Observe(ctx context.Context, c peer.Caller, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	if !r.Fence.IsZero() && string(r.Fence.Host) != c.Identity.ID {
		return cluster.ObserveReply{}, fmt.Errorf("the fence of host %s was brought by host %s", r.Fence.Host, c.Identity.ID)
	}
	return h.d.host.Observe(ctx, r), nil
}

func (h handler) Apply(ctx context.Context, c peer.Caller, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	if string(r.Fence.Host) != c.Identity.ID {
		return cluster.ApplyReply{}, fmt.Errorf("the fence of host %s was brought by host %s", r.Fence.Host, c.Identity.ID)
	}
	return h.d.host.Apply(ctx, r), nil
}

func (h handler) Goal(ctx context.Context, _ peer.Caller, wish json.RawMessage) (json.RawMessage, error) {
	var asked manager.GoalRequest
	switch {
	case json.Unmarshal(wish, &asked) != nil || !asked.Goal.NoStore:
	case h.d.moves.goesHome():
		return nil, mistake("bring the store back, and run the command again; if it is gone for good, see docs/operations/record-moved.md",
			"a move of the record to the hosts was under way, and whether it came true is not known while the store is silent")
	case h.d.keeping != nil:
		return nil, mistake("bring the daemons of more hosts back: a majority of those that keep the record is needed",
			"--no-store is for clusters with a shared store, and here the hosts keep the record: two halves of them could each change the voters")
	}
	return h.d.manager.HandleGoal(ctx, wish)
}

// Keep answers for what this host keeps.
func (h handler) Keep(ctx context.Context, c peer.Caller, r peer.KeepRequest) (peer.KeepReply, error) {
	switch {
	case r.Move != nil || r.Offer != nil:
		return h.d.moves.answer(ctx, c, r)
	case h.d.keeping == nil:
		return h.d.moves.whatIsLeft(ctx, c, r)
	}
	return h.d.keeping.Answer(ctx, c, r)
}

func (h handler) Report(ctx context.Context, c peer.Caller, question json.RawMessage) (json.RawMessage, error) {
	var q console.Question
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	if q.Kind != console.AskStatus && c.Identity.Role != pki.RoleOperator {
		return nil, fmt.Errorf("%w: %q is for the operator's certificate, and this is one of role %q", peer.ErrRole, q.Kind, c.Identity.Role)
	}
	switch q.Kind {
	case console.AskStatus:
		return json.Marshal(h.d.report())
	case console.AskForget:
		return json.Marshal(h.d.forget(ctx, q.Host))
	case console.AskFence:
		return json.Marshal(h.d.resetFence(ctx, q))
	case console.AskConfirm:
		return json.Marshal(h.d.confirmDisk(q))
	case console.AskPrune:
		return json.Marshal(h.d.prune(ctx, q))
	case console.AskLog:
		return json.Marshal(h.d.logEnd(ctx))
	case console.AskReleases:
		return json.Marshal(h.d.releasesHere(ctx))
	case console.AskLastWord:
		return json.Marshal(h.d.lastWord(q))
	case console.AskServed:
		return json.Marshal(h.d.served(ctx))
	}
	return nil, fmt.Errorf("this daemon does not know what %q asks", q.Kind)
}

// report is what this daemon knows, for people.
func (d *daemon) report() console.Report {
	s := d.manager.Status()
	r := console.Report{
		Cluster: s.Cluster, Host: s.Self, Build: d.program.Build, Leader: s.Leader, Leading: s.Leading, Unfit: s.Unfit,
		Contacts: d.contacts(), Observation: s.Observation, Decision: s.Decision, Certificates: d.certs.list(),
		Recent: d.watch.recent(), At: time.Now().UTC().Round(0), Keepers: d.keeping.Keepers(),
	}
	if o := s.Observation; o != nil && s.Decision != nil {
		r.Backups, r.Queue, r.Steps = console.BackupsOf(o, r.At), plan.Queue(o, *s.Decision), plan.Progress(o)
		r.Aside = plan.Asides(o)
	}
	for _, c := range r.Contacts {
		if c.Host == s.Leader {
			r.LeaderEndpoint = c.Endpoint
		}
	}
	return r
}

// served is what the own member answers a read through raft with now.
func (d *daemon) served(ctx context.Context) console.Served {
	out := console.Served{Host: d.id}
	s := d.host.Observe(ctx, cluster.ObserveRequest{}).State
	if s != nil && s.Status != nil && s.Status.Healthy && !s.Status.Learner { // a voter is healthy by such a read
		out.Cluster, out.Revision = s.Status.Cluster, s.Status.Revision
	}
	return out
}

// hasQuorum tells whether the own member reads through raft; an error says that it is not known.
func (d *daemon) hasQuorum(ctx context.Context, but *cluster.Intent) (bool, error) {
	reply := d.host.Observe(ctx, cluster.ObserveRequest{})
	if reply.State == nil {
		return false, unseen(reply)
	}
	return keeping.HasQuorum(ctx, reply.State, but, reacher{})
}

// ready: the daemon is ready when the own member serves, or carries none.
func (d *daemon) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	reply := d.host.Observe(ctx, cluster.ObserveRequest{})
	switch {
	case reply.State == nil:
		return unseen(reply)
	case reply.State.Local.Run && (reply.State.Status == nil || !reply.State.Status.Healthy):
		return errors.New("the member of this host does not serve")
	}
	return nil
}

// unseen says why the own host gave no facts.
func unseen(r cluster.ObserveReply) error {
	switch b := r.Busy; {
	case b == nil:
		return errors.New("the host did not report its state")
	case b.Op.Kind == cluster.OpBoot && b.Word() == "":
		return errors.New("the host is starting")
	case b.Op.Kind == cluster.OpBoot:
		return fmt.Errorf("the host is starting, and %s", b.Word())
	case b.Word() == "":
		return errors.New("the host cannot be looked at: its disk takes its time")
	default:
		return fmt.Errorf("the host cannot be looked at: %s", b.Word())
	}
}

// network reaches the other daemons.
type network struct{ pool *peer.Pool }

// ask makes one call of the daemon at a contact.
func ask[Q, A any](ctx context.Context, n network, to cluster.Contact, call func(*peer.Client, context.Context, Q) (A, error), q Q) (A, error) {
	c, err := n.pool.To(to)
	if err != nil {
		var none A
		return none, err
	}
	return call(c, ctx, q)
}

func (n network) Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) {
	return ask(ctx, n, cluster.Contact{Endpoint: endpoint}, (*peer.Client).Ping, p)
}

func (n network) Observe(ctx context.Context, to cluster.Contact, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	return ask(ctx, n, to, (*peer.Client).Observe, r)
}

func (n network) Apply(ctx context.Context, to cluster.Contact, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	return ask(ctx, n, to, (*peer.Client).Apply, r)
}

func (n network) Goal(ctx context.Context, to cluster.Contact, wish json.RawMessage) (json.RawMessage, error) {
	return ask(ctx, n, to, (*peer.Client).Goal, wish)
}

var _ host.Disk = (*datadir.Dir)(nil)
