package host_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// A founder starts on each part of what its intent says, and a joiner on each part of
// its preparation.
func TestFirstStartOneByOne(t *testing.T) {
	backup := cluster.Source{Kind: cluster.SourceBackup, Backup: "B1"}
	for name, c := range map[string]struct {
		first []cluster.Op
		op    func(*machine) cluster.Op
		want  bool
	}{
		"found": {nil, func(m *machine) cluster.Op { return m.found(1) }, true},
		"found what the op has the release of": {nil, func(m *machine) cluster.Op {
			op := m.found(1)
			m.intent.Version = cluster.Version{}
			return op
		}, true},
		"found without a token": {nil, func(m *machine) cluster.Op {
			op := m.found(1)
			m.intent.Token = ""
			return op
		}, false},
		"found with another source of data": {nil, func(m *machine) cluster.Op {
			op := m.found(1)
			m.intent.Source, op.Source = backup, &cluster.Source{Kind: cluster.SourceBackup, Backup: "B2"}
			return op
		}, false},
		"found over a marker of etcd-manager": {nil, func(m *machine) cluster.Op {
			op := m.found(1)
			m.intent.Generation, m.intent.Nonce, op.Generation, op.Nonce = 0, "", 0, ""
			return op
		}, false},
		"join": {[]cluster.Op{prepareOp}, func(*machine) cluster.Op { return joinOp(9) }, true},
		"join what nobody prepared": {nil, func(*machine) cluster.Op {
			op := joinOp(9)
			op.Generation, op.Nonce, op.Cluster = 0, "", 0
			return op
		}, false},
		"join another generation": {[]cluster.Op{prepareOp}, func(*machine) cluster.Op {
			op := joinOp(9)
			op.Generation = 2
			return op
		}, false},
		"join another founding": {[]cluster.Op{prepareOp}, func(*machine) cluster.Op {
			op := joinOp(9)
			op.Nonce = "n2"
			return op
		}, false},
		"join another cluster": {[]cluster.Op{prepareOp}, func(*machine) cluster.Op {
			op := joinOp(9)
			op.Cluster = 0xd
			return op
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				_, sources := staging(m)
				d := m.boot(sources)
				defer d.end()
				d.look(1)
				for _, op := range c.first {
					d.must(1, op)
				}
				op := c.op(m)
				if c.want {
					d.must(1, op)
				} else {
					d.mustRefuse(1, op)
				}
				synctest.Wait()
				if runs, _ := m.process(); runs != c.want {
					t.Errorf("it runs: %v", runs)
				}
			})
		})
	}
}

// A membership call says what it is about, and is made through a member that the list has.
func TestMembershipOneByOne(t *testing.T) {
	without := func(m *machine) { m.etcd.view.Members = m.etcd.view.Members[:2] }
	for name, c := range map[string]struct {
		op     cluster.Op
		guard  cluster.Guard
		before func(*machine)
	}{
		"through a member that is not listed": {
			cluster.Op{Kind: cluster.OpRemove, Member: 3}, cluster.Guard{Cluster: 0xc, Members: []cluster.MemberID{2, 3}, Voters: []cluster.MemberID{2}}, without,
		},
		"a downgrade to nothing":         {cluster.Op{Kind: cluster.OpDowngrade}, threeGuard, nil},
		"a compaction to nowhere":        {cluster.Op{Kind: cluster.OpCompact}, threeGuard, nil},
		"no alarm":                       {cluster.Op{Kind: cluster.OpDisarm, Member: 2}, threeGuard, nil},
		"a learner at no URL":            {cluster.Op{Kind: cluster.OpAddLearner}, threeGuard, nil},
		"a voter at no URL":              {cluster.Op{Kind: cluster.OpAddVoter}, threeGuard, nil},
		"an update to no URL":            {cluster.Op{Kind: cluster.OpUpdateURL, Member: 2}, threeGuard, nil},
		"an update of nobody":            {cluster.Op{Kind: cluster.OpUpdateURL, Member: 7, PeerURLs: []string{"http://x:1"}}, threeGuard, nil},
		"an update of a learner":         {cluster.Op{Kind: cluster.OpUpdateURL, Member: 3, PeerURLs: []string{"http://x:1"}}, threeGuard, nil},
		"a promotion of nobody":          {cluster.Op{Kind: cluster.OpPromote, Member: 7}, threeGuard, nil},
		"a removal of nobody":            {cluster.Op{Kind: cluster.OpRemove}, threeGuard, nil},
		"a guard without a cluster":      {cluster.Op{Kind: cluster.OpRemove, Member: 3}, cluster.Guard{Members: threeGuard.Members, Voters: threeGuard.Voters}, nil},
		"a guard without members":        {cluster.Op{Kind: cluster.OpRemove, Member: 3}, cluster.Guard{Cluster: 0xc, Voters: threeGuard.Voters}, nil},
		"a guard without voters":         {cluster.Op{Kind: cluster.OpRemove, Member: 3}, cluster.Guard{Cluster: 0xc, Members: threeGuard.Members}, nil},
		"leadership to nobody":           {cluster.Op{Kind: cluster.OpMoveLeader}, threeGuard, func(m *machine) { m.etcd.status.Leader = 0 }},
		"leadership to an unlisted":      {cluster.Op{Kind: cluster.OpMoveLeader, Member: 7}, threeGuard, func(m *machine) { m.etcd.status.Leader = 9 }},
		"leadership to a learner":        {cluster.Op{Kind: cluster.OpMoveLeader, Member: 3}, threeGuard, func(m *machine) { m.etcd.status.Leader = 9 }},
		"leadership from another member": {cluster.Op{Kind: cluster.OpMoveLeader, Member: 9}, threeGuard, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := voter(t)
				defer d.end()
				m.etcd.mu.Lock()
				if c.before != nil {
					c.before(m)
				}
				m.etcd.mu.Unlock()
				if r := d.do(1, c.op, c.guard); r.Outcome != cluster.OutcomeRefused {
					t.Errorf("%s: %s", r.Outcome, r.Reason)
				}
				if len(m.etcd.calls) > 0 {
					t.Errorf("called: %v", m.etcd.calls)
				}
			})
		})
	}
}

// What an op has added already is the very member that it asked for, and not one that
// was there before it, is at another place, or votes.
func TestAddedAlready(t *testing.T) {
	const url = "http://h4:2380"
	fresh := cluster.Member{ID: 4, PeerURLs: []string{url}, Learner: true}
	for name, c := range map[string]struct {
		more    *cluster.Member
		at      string
		outcome cluster.Outcome
		member  cluster.MemberID
	}{
		"it was":               {&fresh, url, cluster.OutcomeDone, 4},
		"it was not":           {nil, url, cluster.OutcomeDone, 99},
		"it was there before":  {nil, "http://h3:2380", cluster.OutcomeDone, 99},
		"another was added":    {&cluster.Member{ID: 4, PeerURLs: []string{"http://h5:2380"}, Learner: true}, url, cluster.OutcomeRefused, 0},
		"it was added to vote": {&cluster.Member{ID: 4, PeerURLs: []string{url}}, url, cluster.OutcomeRefused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := voter(t)
				defer d.end()
				if c.more != nil {
					m.etcd.mu.Lock()
					m.etcd.view.Members = append(m.etcd.view.Members, *c.more)
					m.etcd.mu.Unlock()
				}
				r := d.do(1, cluster.Op{Kind: cluster.OpAddLearner, PeerURLs: []string{c.at}}, threeGuard)
				if r.Outcome != c.outcome || r.Member != c.member {
					t.Errorf("%s: member %s (%s)", r.Outcome, r.Member, r.Reason)
				}
			})
		})
	}
}

// A stage is begun for a whole order only, on a disk that may carry what comes of it, and
// never in the place of what a generation begins with.
func TestStageOneByOne(t *testing.T) {
	with := func(kind string, change func(*cluster.Op)) func(*machine, *daemon) cluster.Op {
		return func(*machine, *daemon) cluster.Op {
			op := stageOp(kind)
			change(&op)
			return op
		}
	}
	asIs := func(*cluster.Op) {}
	for name, c := range map[string]struct {
		op   func(*machine, *daemon) cluster.Op
		want bool
	}{
		"whole":                   {with(cluster.SourceBackup, asIs), true},
		"no source":               {with(cluster.SourceBackup, func(o *cluster.Op) { o.Source = nil }), false},
		"no command":              {with(cluster.SourceBackup, func(o *cluster.Op) { o.Command = "" }), false},
		"no release":              {with(cluster.SourceBackup, func(o *cluster.Op) { o.Version = cluster.Version{} }), false},
		"a release that is away":  {with(cluster.SourceBackup, func(o *cluster.Op) { o.Version = cluster.MustVersion("3.5.36") }), false},
		"a survivor that is none": {with(cluster.SourceSurvivor, asIs), false},
		"halted by nobody":        {with(cluster.SourceHalted, asIs), false},
		"a disk that went back": {func(_ *machine, d *daemon) cluster.Op {
			d.Remember([]cluster.Ping{{Cluster: "test", Host: "h2", RememberedDisk: d.look(1).Disk, Remembered: 1 << 40}})
			return stageOp(cluster.SourceBackup)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				x, sources := staging(m)
				d := m.boot(sources)
				defer d.end()
				d.look(1)
				if op := c.op(m, d); c.want {
					d.must(1, op)
					x.proceed <- nil
				} else {
					d.mustRefuse(1, op)
				}
				synctest.Wait()
				if staged := m.state().Staged != nil; staged != c.want {
					t.Errorf("staged: %v", staged)
				}
			})
		})
	}
	for name, c := range map[string]struct {
		state  cluster.IntentState
		token  string // empty: that of what lies ready
		higher bool   // what is asked for now
		want   bool
	}{
		"it is being founded with it":   {cluster.IntentFounding, "", false, false},
		"it was founded with it":        {cluster.IntentFounded, "", false, true},
		"it is founded with another":    {cluster.IntentFounding, "another", false, true},
		"a higher one is asked for now": {cluster.IntentFounding, "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				x, sources := staging(m)
				d := m.boot(sources)
				d.look(1)
				op := stageOp(cluster.SourceBackup)
				d.must(1, op)
				x.proceed <- nil
				synctest.Wait()
				d.end()
				m.edit(func(s *record.State) {
					token := c.token
					if token == "" {
						token = s.Staged.Token
					}
					s.Intent = &cluster.Intent{Name: "test", Generation: op.Generation, Nonce: "n", Token: token, State: c.state}
				})
				x, sources = staging(m)
				d = m.boot(sources)
				defer d.end()
				d.look(1)
				again := op
				again.Command = "another"
				if c.higher {
					again.Generation++
				}
				if !c.want {
					d.mustRefuse(1, again)
					return
				}
				d.must(1, again)
				x.proceed <- nil
				synctest.Wait()
			})
		})
	}
}

// A member that etcd-manager left is not taken over by a disk that gave it up, nor where
// something higher was promised, nor where it is not known how it is reached.
func TestTakeOverOneByOne(t *testing.T) {
	for name, c := range map[string]struct {
		record func(*record.State)
		urls   cluster.URLs
		word   string
	}{
		"as it is to be":   {nil, ownURLs, ""},
		"it was given up":  {func(s *record.State) { s.Carried = []cluster.MemberID{5} }, ownURLs, "gave up member"},
		"a promise":        {func(s *record.State) { s.LowestGeneration = 1 }, ownURLs, "promised"},
		"no client's URL":  {nil, cluster.URLs{Peer: ownURLs.Peer}, "not known"},
		"no peer's URL":    {nil, cluster.URLs{Client: ownURLs.Client}, "not known"},
		"another's scheme": {nil, cluster.URLs{Peer: ownURLs.Peer, Client: []string{"https://h1:4001"}}, "https"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				d := m.boot()
				d.look(1)
				d.end()
				if c.record != nil {
					m.edit(c.record)
				}
				withTheirs(m)
				m.theirs.State.Nodes[0].URLs = c.urls
				d = m.boot()
				defer d.end()
				st := d.look(1)
				if runs, _ := m.process(); runs != (c.word == "") {
					t.Errorf("it runs: %v", runs)
				}
				if p := st.Predecessor; (p == nil) != (c.word == "") || p != nil && !strings.Contains(p.Waits, c.word) {
					t.Errorf("it waits for %+v", p)
				}
			})
		})
	}
}

// While the data of one member is being set aside, that of another is not.
func TestSetAsideOfTwo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		m.mu.Lock()
		m.heldBy = errors.New("somebody reads it")
		m.mu.Unlock()
		op := cluster.Op{Kind: cluster.OpSetAside, Member: 9, Cluster: 0xc, Reason: cluster.AsideSuperseded}
		if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeFailed {
			t.Fatalf("%s: %s", r.Outcome, r.Reason)
		}
		another := op
		another.Member = 8
		d.mustRefuse(1, another)
		m.mu.Lock()
		m.heldBy = nil
		m.mu.Unlock()
		d.must(1, op)
	})
}

// A founder of what is being founded is not forgotten.
func TestForgetAFounder(t *testing.T) {
	for state, want := range map[cluster.IntentState]error{cluster.IntentFounding: record.ErrCountedOn, cluster.IntentFounded: nil} {
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			d := m.boot()
			d.look(1)
			d.end()
			m.edit(func(s *record.State) {
				s.Intent = &cluster.Intent{
					Name: "test", Generation: 1, Nonce: "n", Token: "t", State: state, Founders: []cluster.Founder{{Host: "h2"}},
				}
			})
			d = m.boot()
			defer d.end()
			d.look(1)
			if err := d.Forget("h2"); !errors.Is(err, want) {
				t.Errorf("%s: %v", state, err)
			}
		})
	}
}
