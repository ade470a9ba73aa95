package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
)

// withAdmission gives the machine a place in a cluster that something else runs.
func withAdmission(m *machine) {
	m.intent = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}
	m.etcd.status.Cluster, m.etcd.view.Cluster = 0xc, 0xc
	m.promoted = func(cluster.MemberID) (bool, error) { return false, nil }
	m.admission = &record.Admission{
		Cluster: 0xc, Token: theirToken, Known: []cluster.MemberID{1, 2, 3}, URLs: ownURLs, Version: v36, Member: 5,
		Options: []string{"--quota-backend-bytes=3221225472"},
		Members: []cluster.Member{{ID: 1, Name: "x", PeerURLs: []string{"http://x:2380"}}, {ID: 5, PeerURLs: ownURLs.Peer, Learner: true}},
	}
}

// A host starts the member that was added for it, once, and is told when the
// cluster's record was written.
func TestEnter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withAdmission(m)
		d := m.boot()
		st := d.look(1)
		_, starts := m.process()
		if !taken(st) || len(starts) != 1 || st.Predecessor != nil {
			t.Fatalf("local %+v, starts %+v, waits %+v", st.Local, starts, st.Predecessor)
		}
		l := starts[0]
		if l.Version != v36 || l.Token != theirToken || !l.Adopted || l.Founding || len(l.InitialCluster) != 2 || l.InitialCluster[1].Name != string(st.Host) ||
			!slices.Equal(l.Options, m.admission.Options) {
			t.Errorf("started as %+v", l)
		}
		d.end()
		d = m.boot()
		if st := d.look(2); !taken(st) {
			t.Errorf("after a restart of the daemon: %+v", st.Local)
		}
		d.end()
		m.conserved()
	})
}

// A daemon that runs already sees its place by itself.
func TestEnterLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		if st := d.look(1); st.TookOver() {
			t.Fatalf("local %+v", st.Local)
		}
		m.mu.Lock()
		withAdmission(m)
		m.mu.Unlock()
		later(11 * time.Second)
		if st := d.look(2); !taken(st) {
			t.Errorf("local %+v, waits %+v", st.Local, st.Predecessor)
		}
		d.end()
	})
}

// What keeps a member from its first start.
func TestEnterWaits(t *testing.T) {
	for name, c := range map[string]struct {
		hinder, free func(*machine)
		words        string
	}{
		"not added":      {func(m *machine) { m.admission.Member = 0 }, func(m *machine) { m.admission.Member = 5 }, "no member was added"},
		"older":          {func(m *machine) { m.admission.Known = append(m.admission.Known, 5) }, func(m *machine) { m.admission.Known = m.admission.Known[:3] }, "existed before"},
		"other URLs":     {func(m *machine) { m.admission.URLs.Peer = []string{"http://z:1"} }, func(m *machine) { m.admission.URLs = ownURLs }, "listens at"},
		"no release":     {func(m *machine) { m.admission.Version = cluster.MustVersion("3.6.2") }, func(m *machine) { m.admission.Version = v36 }, "no etcd 3.6.2"},
		"a record":       {func(m *machine) { m.intent.Generation = 2 }, func(m *machine) { m.intent.Generation = 0 }, "generation 2"},
		"no marker":      {func(m *machine) { m.intent = nil }, func(m *machine) { m.intent = &cluster.Intent{State: cluster.IntentFounded} }, "no created marker"},
		"it was a voter": {func(m *machine) { m.promoted = func(cluster.MemberID) (bool, error) { return true, nil } }, nil, "was promoted"},
		"store silent": {func(m *machine) {
			m.promoted = func(cluster.MemberID) (bool, error) { return false, errors.New("no store") }
		}, nil, "no store"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				withAdmission(m)
				c.hinder(m)
				d := m.boot()
				st := d.look(1)
				if p := st.Predecessor; p == nil || !strings.Contains(p.Waits, c.words) {
					t.Fatalf("it waits for %+v", p)
				}
				if runs, starts := m.process(); runs || len(starts) > 0 || st.Free() {
					t.Error("it was started all the same")
				}
				m.mu.Lock()
				if c.free == nil {
					m.promoted = func(cluster.MemberID) (bool, error) { return false, nil }
				} else {
					c.free(m)
				}
				m.mu.Unlock()
				later(6 * time.Second)
				if st := d.look(2); !taken(st) {
					t.Errorf("local %+v, waits %+v", st.Local, st.Predecessor)
				}
				d.end()
			})
		})
	}
}

// A member whose directory is emptied after its first start is never started from
// the admission that is still there.
func TestEnterOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withAdmission(m)
		d := m.boot()
		d.look(1)
		d.end()
		m.die()
		delete(m.disk.data, theirToken)
		d = m.boot()
		later(30 * time.Second)
		st := d.look(2)
		if runs, starts := m.process(); runs || len(starts) > 1 || st.Local.Member == 5 {
			t.Errorf("runs %t, local %+v", runs, st.Local)
		}
		if p := st.Predecessor; p == nil || !p.Invited() || !strings.Contains(p.Waits, "gave up member") || !strings.Contains(p.Hint, "etcdctl member remove") {
			t.Errorf("it says of the member that it lost: %+v", p)
		}
		d.end()
	})
}

func (m *machine) readPromoted(_ context.Context, id cluster.MemberID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.promoted(id)
}

// A host for which no member was added says that nothing of the cluster lies on it,
// and is one like any other once the cluster's record is written without it.
func TestInvitedAndNotAdded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withAdmission(m)
		m.admission.Member = 0
		d := m.boot()
		if st := d.look(1); st.Predecessor == nil || !st.Predecessor.Invited() || st.Free() {
			t.Fatalf("it waits for %+v", st.Predecessor)
		}
		in := &cluster.Intent{Name: "test", Generation: 1, Nonce: "n1", Token: theirToken, State: cluster.IntentFounded, Cluster: 0xc}
		if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2), Intent: in}); r.State == nil {
			t.Fatalf("%+v", r)
		}
		later(6 * time.Second)
		if st := d.look(3); st.Predecessor != nil || !st.Free() {
			t.Errorf("it waits for %+v, local %+v", st.Predecessor, st.Local)
		}
		d.end()
		m.conserved()
	})
}

// A host with TLS enters a cluster without it at its plain peer URL, and stays there until a leader has it restarted with TLS; clients
// find it with TLS from the start.
func TestEnterWithoutTLS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withAdmission(m)
		secure := cluster.URLs{Peer: []string{"https://h1:2380"}, Client: []string{"https://h1:4001"}, Quarantine: []string{"https://h1:8001"}}
		m.admission.URLs.Client, m.admission.URLs.Quarantine = secure.Client, secure.Quarantine
		with := func(_ *session, o *host.Options) { o.URLs = secure }
		d := m.boot(with)
		d.look(1)
		d.end()
		d = m.boot(with)
		defer d.end()
		if st := d.look(2); !taken(st) {
			t.Errorf("local %+v, waits %+v", st.Local, st.Predecessor)
		}
		_, starts := m.process()
		for _, l := range starts {
			if l.URLs.Peer[0] != ownURLs.Peer[0] || l.URLs.Client[0] != secure.Client[0] {
				t.Errorf("it is started at %+v", l.URLs)
			}
		}
		if len(starts) == 0 {
			t.Error("it was not started")
		}
		m.conserved()
	})
}
