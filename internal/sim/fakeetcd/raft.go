package fakeetcd

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// proposal is an entry on its way into the log: data or a change.
type proposal struct {
	request *request // nil: the process's own
	data    []byte
	change  *raftpb.ConfChange
}

// tick is a heartbeat interval gone by. Raft's own ticks would campaign by
// crypto/rand, so for all but the leader only its clock is moved, and the
// decision to campaign is made here.
func (p *Proc) tick() {
	p.later(p.net.opt.Tick, p.tick)
	p.connect()
	p.guard(func() {
		if p.role == raft.StateLeader {
			p.rn.Tick()
			return
		}
		p.rn.TickQuiesced()
		p.elapsed++
		if p.elapsed >= p.timeout {
			p.resetElection()
			_ = p.rn.Campaign() // a learner or stranger does not; that is no error
		}
	})
	if p.exit != "" {
		return
	}
	p.flush()
	p.publish()
	p.retryReads()
	if p.lead == p.member {
		p.settleVersion()
		p.expireLeases()
	}
	p.settleFormat()
}

func (p *Proc) resetElection() {
	p.elapsed = 0
	p.timeout = electionTicks + p.rng.IntN(electionTicks)
}

// receive takes a message from a peer.
func (p *Proc) receive(m *raftpb.Message) {
	p.guard(func() {
		// Word from the leader of the term resets the election timer.
		switch m.GetType() {
		case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
			if m.GetTerm() >= p.term {
				p.elapsed = 0
			}
		}
		if es := m.GetEntries(); m.GetType() == raftpb.MsgApp && len(es) > 0 {
			// The sender has no entry from before its raft snapshot to send: it would
			// have sent that, and it is durable here before anything behind it.
			p.coverFrom(cluster.MemberID(m.GetFrom()), es[0].GetIndex())
		}
		_ = p.rn.Step(m) // stale messages are errors, and of no consequence
	})
}

// pump carries out what raft asks for until it asks for nothing.
func (p *Proc) pump() {
	for p.exit == "" && p.rn != nil && p.rn.HasReady() {
		rd := p.rn.Ready()
		if len(rd.Entries) > 0 || !raft.IsEmptyHardState(rd.HardState) {
			if p.net.crash(p, "save", false) {
				return
			}
			p.data.save(rd.Entries, rd.HardState)
			p.store(rd)
			if p.net.crash(p, "save", true) {
				return
			}
		}
		for _, m := range rd.Messages {
			p.send(m)
		}
		for _, e := range rd.CommittedEntries {
			p.apply(e)
			if p.exit != "" {
				return
			}
		}
		p.cutLog()
		for _, rs := range rd.ReadStates {
			p.readIndex(rs)
		}
		p.serveReads()
		p.rn.Advance(rd)
		p.observe()
	}
}

// store gives raft's own view of the disk what was made durable.
func (p *Proc) store(rd raft.Ready) {
	_ = p.log.Append(rd.Entries) // panics rather than fails
	if !raft.IsEmptyHardState(rd.HardState) {
		_ = p.log.SetHardState(rd.HardState) // never fails
	}
}

// observe notices changes of term, vote, role and leader.
func (p *Proc) observe() {
	s := p.rn.BasicStatus()
	if s.GetTerm() != p.term || s.GetVote() != p.vote || s.RaftState != p.role {
		p.resetElection()
	}
	was := p.role
	p.term, p.vote, p.role = s.GetTerm(), s.GetVote(), s.RaftState
	if p.role == raft.StateLeader && was != raft.StateLeader {
		p.promoteLessor()
		p.versionAt = time.Time{}
		p.net.trace(p.host, fmt.Sprintf("leads in term %d", p.term))
	}
	lead := cluster.MemberID(s.Lead)
	if lead == p.lead {
		return
	}
	p.lead = lead
	if lead == 0 {
		return
	}
	p.failReads()
	p.repropose()
}

// flush proposes again what raft dropped while leadership was being moved.
func (p *Proc) flush() {
	if p.lead != 0 && len(p.queue) > 0 {
		p.guard(p.repropose)
	}
}

func (p *Proc) repropose() {
	queue := p.queue
	p.queue = nil
	for _, q := range queue {
		p.propose(q)
	}
}

// propose hands an entry to raft, or keeps it until there is a leader or its
// caller has given up, as etcd's node does.
func (p *Proc) propose(q proposal) {
	if q.request != nil && q.request.over {
		return
	}
	if p.lead != 0 {
		var err error
		if q.change != nil {
			err = p.rn.ProposeConfChange(q.change)
		} else {
			err = p.rn.Propose(q.data)
		}
		if err == nil {
			return
		}
	}
	p.queue = append(p.queue, q)
}

// proposeOwn is propose for what the process wants by itself.
func (p *Proc) proposeOwn(o op) {
	o.Request = p.id()
	p.guard(func() { p.propose(proposal{data: o.marshal()}) })
}

func (p *Proc) apply(e *raftpb.Entry) {
	p.st.applied = e.GetIndex()
	switch e.GetType() {
	case raftpb.EntryNormal:
		p.applyEntry(e)
	case raftpb.EntryConfChange:
		var cc raftpb.ConfChange
		if err := proto.Unmarshal(e.Data, &cc); err != nil {
			panic(fmt.Sprintf("fakeetcd: read a configuration change: %v", err))
		}
		p.applyChange(e.GetIndex(), &cc)
	}
}

func (p *Proc) applyEntry(e *raftpb.Entry) {
	if len(e.Data) == 0 {
		return // a leader's first
	}
	var o op
	if err := json.Unmarshal(e.Data, &o); err != nil {
		panic(fmt.Sprintf("fakeetcd: read an entry: %v", err))
	}
	if o.V2 && p.unreadV2(e.GetIndex()) {
		p.end("panic: unmarshal should never fail: a request of version 2 of the API")
		return
	}
	if o.Kind == opRestore {
		p.st.load(p.net.snapshots[o.Snapshot], o.Revision)
		p.st.unmark(o.Version)
		p.grow(e.GetIndex())
		return
	}
	if o.Kind == opVersion && o.Version.Compare(p.st.version) < 0 && p.launch.Version.Has(cluster.DowngradeAPI) {
		p.data.cut = max(p.data.cut, e.GetIndex()) // etcd forces a raft snapshot when the cluster version falls
	}
	result, err := p.st.apply(o)
	p.grow(e.GetIndex())
	p.overQuota(o)
	switch o.Kind {
	case opLeaseGrant, opLeaseRevoke:
		p.leaseApplied(o, err)
	case opPublish:
		if o.Member == p.member && o.Request != 0 && o.Request>>40 == p.nextID>>40 && !p.serving {
			p.serving = true
			p.net.trace(p.host, "serves")
			p.later(0, p.admit)
		}
	}
	p.answer(o.Request, result, err)
}

func (p *Proc) applyChange(index uint64, cc *raftpb.ConfChange) {
	var c confContext
	if len(cc.Context) > 0 {
		if err := json.Unmarshal(cc.Context, &c); err != nil {
			panic(fmt.Sprintf("fakeetcd: read a configuration change: %v", err))
		}
	}
	id := cluster.MemberID(cc.GetNodeId())
	if err := p.judgeChange(index, cc, c); err != nil {
		p.rn.ApplyConfChange(&raftpb.ConfChange{Type: cc.Type, NodeId: new(uint64(raft.None))})
		p.answer(cc.GetId(), 0, err)
		return
	}
	p.st.change(cc, c)
	p.rn.ApplyConfChange(cc)
	p.answer(cc.GetId(), 0, nil)
	if cc.GetType() == raftpb.ConfChangeRemoveNode && id == p.member && !p.leaving {
		p.leaving = true
		p.later(removedDelay, func() { p.end("the member has been permanently removed from the cluster") })
	}
}

// answer ends the request that an applied entry came from, if it was made here.
func (p *Proc) answer(id uint64, result int64, err error) {
	if r := p.requests[id]; r != nil {
		delete(p.requests, id)
		r.finish(result, err)
	}
}

// publish makes the member known under its name and client URLs. Until that is
// applied no client is served: a member that was restarted without a quorum is
// silent. Source: EtcdServer.publishV3 and ReadyNotify.
func (p *Proc) publish() {
	now := time.Now()
	if p.serving || p.lead == 0 || now.Before(p.publishAt) {
		return
	}
	p.publishAt = now.Add(reqTimeout)
	urls := p.launch.URLs.Client
	if p.launch.Quarantined {
		urls = p.launch.URLs.Quarantine
	}
	p.proposeOwn(op{Kind: opPublish, Member: p.member, Name: string(p.launch.Name), URLs: urls, V2: !p.launch.Version.AtLeast(3, 6)})
}

// id mints a request ID that no other process has.
func (p *Proc) id() uint64 {
	p.nextID++
	return p.nextID
}

// read is a linearizable read under way.
type read struct {
	ids     map[uint64]bool
	index   uint64 // confirmed; zero: not yet
	retryAt time.Time
	endAt   time.Time
	then    func()
	fail    func(error)
	over    bool
}

func (rd *read) finish(err error) {
	if rd.over {
		return
	}
	rd.over = true
	if err != nil {
		rd.fail(err)
		return
	}
	rd.then()
}

// linearizable runs then once the member has applied all that was acknowledged
// before now.
func (p *Proc) linearizable(then func(), fail func(error)) {
	now := time.Now()
	rd := &read{ids: make(map[uint64]bool), endAt: now.Add(reqTimeout), then: then, fail: fail}
	p.reads = append(p.reads, rd)
	p.guard(func() { p.requestIndex(rd) })
}

func (p *Proc) requestIndex(rd *read) {
	rd.retryAt = time.Now().Add(readRetry)
	id := p.id()
	rd.ids[id] = true
	p.rn.ReadIndex(binary.BigEndian.AppendUint64(nil, id))
}

func (p *Proc) readIndex(rs raft.ReadState) {
	id := binary.BigEndian.Uint64(rs.RequestCtx)
	for _, rd := range p.reads {
		if rd.ids[id] && rd.index == 0 {
			rd.index = rs.Index
		}
	}
}

// serveReads ends the reads whose index is applied.
func (p *Proc) serveReads() {
	reads := p.reads
	p.reads = nil
	for _, rd := range reads {
		switch {
		case rd.over:
		case rd.index != 0 && rd.index <= p.st.applied:
			rd.finish(nil)
		default:
			p.reads = append(p.reads, rd)
		}
	}
}

func (p *Proc) retryReads() {
	now := time.Now()
	for _, rd := range p.reads {
		switch {
		case rd.over || rd.index != 0:
		case !now.Before(rd.endAt):
			rd.finish(errTimeout)
		case !now.Before(rd.retryAt):
			p.guard(func() { p.requestIndex(rd) })
		}
	}
}

// failReads: a new leader makes etcd give up the reads that were under way.
func (p *Proc) failReads() {
	reads := p.reads
	p.reads = nil
	for _, rd := range reads {
		rd.finish(errLeaderChanged)
	}
}
