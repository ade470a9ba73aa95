package machines

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/setup"
)

// A cluster begins with self-management off, without a store and with one; a host that joins has it from the cluster, and
// becomes a voter as the spec asks.
func TestInitManual(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 3)
	begin := func(m *machine, store string) setup.Initialised {
		t.Helper()
		done, err := m.Init(t.Context(), setup.Init{Store: store, CreateStore: true, Address: m.address, HostID: m.id, Members: 3, Version: version(t), Wait: time.Minute, Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	off := func(m *machine) {
		t.Helper()
		if o := m.status(t).Observation; o == nil || o.Manual == nil || o.Manual.By != "etcdadm init on "+m.id {
			t.Errorf("the cluster that host %s has begun: %+v", m.id, o)
		}
	}
	first := begin(all[0], "")
	off(all[0])
	if _, err := all[1].tryJoin(t, first, first.Token); err != nil {
		t.Fatal(err)
	}
	all[0].voters(t, 2)
	if out := all[1].etcdadm(t, "auto-manage", "status", "--data-dir", all[1].Paths.Data()); !strings.Contains(out, "self-management: off since") {
		t.Errorf("host %s: %s", all[1].id, out)
	}
	if again := begin(all[0], ""); !again.Again {
		t.Errorf("%+v", again)
	}
	begin(all[2], store)
	off(all[2])
}
