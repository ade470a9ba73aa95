package manager

import (
	"cmp"
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
)

// Status is what this daemon knows at a moment. Values that it points to are
// not changed any more.
type Status struct {
	Cluster string         `json:"cluster"`
	Self    cluster.HostID `json:"self"`
	Leader  cluster.HostID `json:"leader,omitempty"` // of the daemons; empty: none in sight
	Leading bool           `json:"leading"`
	Unfit   string         `json:"unfit,omitempty"` // why this daemon must not lead
	Peers   []PeerStatus   `json:"peers,omitempty"` // sorted by host

	// While this daemon leads: what it saw last, and what follows from it.
	At          time.Time            `json:"at,omitzero"`
	Observation *cluster.Observation `json:"observation,omitempty"`
	Decision    *plan.Decision       `json:"decision,omitempty"`
	Since       time.Time            `json:"since,omitzero"` // since when the decision has been this one
}

// PeerStatus is another daemon.
type PeerStatus struct {
	cluster.Contact
	Live  bool          `json:"live"`
	Heard time.Time     `json:"heard"`
	Skew  time.Duration `json:"skew,omitempty"` // its clock minus ours
}

// recording is what is to be written into the store.
type recording struct {
	news     bool // the decision changed
	cluster  cluster.ClusterID
	progress cluster.Progress
}

// Publish makes a tick's result visible.
func (r *Writer) Publish(o *cluster.Observation, d plan.Decision, since time.Time, news bool) {
	id, p := progress(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = Status{At: o.At, Observation: o, Decision: &d, Since: since.Round(0)}
	news = r.trusts.news(o) || news
	news = r.specs.news(o.Wanted(), d.Settled) || news
	r.recording = recording{news: r.pauses.news(o, time.Now()) || r.recording.news || news, cluster: id, progress: p}
	if r.recording.news {
		wake.Up(r.now)
	}
}

// toldSpec is the spec that the status had last, and whether anything was left to be done for it.
type toldSpec struct {
	spec    cluster.Spec
	none    bool
	settled bool
}

// news reports whether the status is to be written for the sake of the spec: who wrote it waits until it is acted on, and by a spec
// that changes nothing the same is decided.
func (t *toldSpec) news(s *cluster.Spec, settled bool) bool {
	now := toldSpec{none: s == nil, settled: settled}
	if s != nil {
		now.spec = *s
	}
	if t.none == now.none && t.settled == now.settled && t.spec.Equal(now.spec) {
		return false
	}
	*t = now
	return true
}

// Ended forgets what only a leader knows.
func (r *Writer) Ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.recording = Status{}, recording{}
	clear(r.unwritten)
}

// progress is the highest that any host tells of.
func progress(o *cluster.Observation) (cluster.ClusterID, cluster.Progress) {
	var id cluster.ClusterID
	var best cluster.Progress
	if view, ok := o.Members(); ok {
		id = view.Cluster
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		best.Revision = max(best.Revision, h.Highest.Revision)
		if s := h.Status; s != nil && s.Cluster == id {
			best.Revision = max(best.Revision, s.Revision)
			if cmp.Or(cmp.Compare(s.Term, best.Term), cmp.Compare(s.Index, best.Index)) > 0 {
				best.Term, best.Index = s.Term, s.Index
			}
		}
	}
	return id, best
}

// Run writes status and record into the store while this host leads: the
// status when the decision changed, and now and then so that who reads it knows
// that it is of now; the record when something grew. Neither holds up the loop, and
// both are advisory.
func (r *Writer) Run(ctx context.Context) {
	if r.Control == nil {
		return
	}
	ticker := time.NewTicker(r.Record)
	defer ticker.Stop()
	quiet := time.NewTimer(0) // the time between two writes of the status
	defer quiet.Stop()
	resting := true
	pace := allowance{every: r.Status}
	var written recording
	var toldAt, recordedAt time.Time
	for {
		news := r.now
		if resting {
			news = nil
		}
		told, due := false, false
		select {
		case <-ctx.Done():
		case <-quiet.C:
			resting = false
		case <-news:
			told = true
		case <-ticker.C:
			due = true
		}
		if ctx.Err() != nil {
			return
		}
		resting = resting && !wake.Ready(quiet.C)
		due = due || wake.Ready(ticker.C)
		if due && time.Since(toldAt) >= r.Heartbeat {
			told = r.beat() && !resting || told
		}
		if told || !resting && wake.Ready(r.now) {
			r.writeStatus(ctx)
			toldAt = time.Now()
			quiet.Reset(pace.took(toldAt))
			resting = true
		}
		if due && (r.recovers() || time.Since(recordedAt) >= r.RecordCalm) {
			r.writeRecord(ctx, &written)
			recordedAt = time.Now()
		}
	}
}

// allowance has a few changes told one soon after the other, since what comes first is often half of what happens: a leader's
// first look, a restart. In the long run there is one for each interval.
type allowance struct {
	every time.Duration
	owed  time.Time // when all that was taken is made up for
}

const (
	// allowedAtOnce is how many may be taken soon after each other, and soon is how soon.
	allowedAtOnce = 5
	soon          = 2 * time.Second
)

// took takes one at now, and is how long the next one waits.
func (a *allowance) took(now time.Time) time.Duration {
	if a.owed.Before(now) {
		a.owed = now
	}
	a.owed = a.owed.Add(a.every)
	return max(min(soon, a.every), a.owed.Sub(now)-(allowedAtOnce-1)*a.every)
}

// beat has the status written though it says nothing else; false: this host leads nothing.
func (r *Writer) beat() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Decision == nil {
		return false
	}
	r.recording.news = true
	wake.Up(r.now)
	return true
}

// recovers tells whether the spec has the cluster recover by itself, which goes by the record.
func (r *Writer) recovers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.status.Observation
	return o != nil && o.Wanted() != nil && o.Wanted().AutoRecoverAfter > 0
}

func (r *Writer) writeStatus(ctx context.Context) {
	r.mu.Lock()
	news, s := r.recording.news, r.status
	r.recording.news = false
	r.mu.Unlock()
	if !news || s.Decision == nil || r.Foreign() {
		r.Unwanted("status")
		return
	}
	out := storeStatus(s)
	var err error
	within(ctx, r.WriteTimeout, func(ctx context.Context) { err = r.Control.WriteStatus(ctx, out) })
	if errors.Is(err, context.DeadlineExceeded) && r.landed(ctx, out) {
		err = nil
	}
	if err != nil {
		r.mu.Lock()
		r.recording.news = true
		r.mu.Unlock()
		wake.Up(r.now)
	}
	r.Wrote("status", "cannot write the status into the store", err)
}

// landed: the status whose write was not answered in time is in the store.
func (r *Writer) landed(ctx context.Context, s control.Status) (is bool) {
	within(ctx, r.WriteTimeout, func(ctx context.Context) {
		had, ok, err := r.Control.ReadStatus(ctx)
		is = err == nil && ok && had.Leader == s.Leader && had.At.Equal(s.At)
	})
	return is
}

func (r *Writer) writeRecord(ctx context.Context, written *recording) {
	r.mu.Lock()
	now := r.recording
	r.mu.Unlock()
	now.news = false
	if now == *written || now.cluster == 0 || r.Foreign() {
		r.Unwanted("record")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
	defer cancel()
	_, err := r.Control.RaiseRecord(ctx, now.cluster, now.progress)
	if err == nil {
		*written = now
	}
	r.Wrote("record", "cannot write the record of progress into the store", err)
}

// storeStatus is the status as the store shows it.
func storeStatus(s Status) control.Status {
	o, d := s.Observation, s.Decision
	out := control.Status{
		Cluster: o.Cluster, Leader: o.Leader, At: o.At, Since: s.Since,
		Rule: d.Rule, Reason: d.Reason.String(), Spec: o.Wanted(), Settled: &d.Settled, Proven: o.Backups.Proven,
	}
	if in := o.Intent(); in != nil {
		out.Generation, out.ClusterID = in.Generation, in.Cluster
	}
	if d.Action != nil {
		out.Command = d.Action.Command
	}
	roster, _ := o.Roster()
	for _, seat := range roster.Seats {
		out.Members = append(out.Members, control.MemberStatus{Member: seat.ID, Host: seat.HostID, Version: seat.Release(), Learner: seat.Learner, Leads: seat.RaftLeader, Up: seat.Up, Condition: seat.Condition, Why: seat.Why, Silent: o.Memory.Hostless(seat.ID, seat.HostID, o.At),
			Quarantined: seat.Host != nil && seat.Host.Local.Quarantined && seat.Host.Process.Runs()})
		if v := seat.Release(); !seat.Learner && !v.IsZero() && (out.Version.IsZero() || v.Compare(out.Version) < 0) {
			out.Version = v
		}
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		out.Hosts = append(out.Hosts, control.HostStatus{Host: h.Host, Disk: h.Disk, Data: h.Data(), Trust: trustOf(h)})
	}
	if n := o.Backups.Newest; len(n) > 0 {
		out.Backup = &n[0]
	}
	out.Pauses = pauseStatus(o)
	for _, q := range plan.Queue(o, *d) {
		out.Commands = append(out.Commands, control.CommandStatus(q))
	}
	for _, b := range d.Blockers {
		// The object in the store has one field for what is to be done.
		out.Blockers = append(out.Blockers, control.BlockerStatus{Code: b.Code, Subject: b.Subject(), Facts: b.Sentence.RawFacts(), Sentence: b.Sentence.String(), Command: b.Remedy()})
	}
	return out
}
