package cli

import (
	"fmt"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
)

// Which store a command takes for the record, and which for the backups: what was named goes before what a daemon told, and a --store
// is that of the backups where there are two.
func TestTwoStores(t *testing.T) {
	a, b, c := file.URL(t.TempDir()), file.URL(t.TempDir()), file.URL(t.TempDir())
	one := &cluster.Observation{Store: cluster.StoreView{URL: a}}
	two := &cluster.Observation{Store: cluster.StoreView{URL: a, Backups: b}}
	for i, test := range []struct {
		store, control  string
		o               *cluster.Observation
		record, backups string
	}{
		{store: a, record: a, backups: a},
		{store: b, control: a, record: a, backups: b},
		{o: one, record: a, backups: a},
		{o: two, record: a, backups: b},
		{store: c, o: one, record: c, backups: c},
		{store: c, o: two, record: a, backups: c},
		{control: c, o: two, record: c, backups: b},
		{control: a, record: a},
		{},
	} {
		q := queue{store: test.store, control: test.control}
		record, err := q.openRecord(t.Context(), test.o, toRead)
		if (test.record == "") != (err != nil) || err == nil && fmt.Sprint(record) != test.record {
			t.Errorf("%d: the record is in %v (%v), want %s", i, record, err, test.record)
		}
		backups, err := q.openBackups(t.Context(), test.o, toRead)
		if (test.backups == "") != (err != nil) || err == nil && fmt.Sprint(backups) != test.backups {
			t.Errorf("%d: the backups are in %v (%v), want %s", i, backups, err, test.backups)
		}
	}
}

// ConfigMaps have a record and no backups: a --store beside them is that of the backups, and without one there are none.
func TestConfigMapsHaveNoBackups(t *testing.T) {
	c := file.URL(t.TempDir())
	o := &cluster.Observation{Store: cluster.StoreView{URL: "kubernetes://ns/name"}}
	q := queue{store: c}
	if record, err := q.openRecord(t.Context(), o, toRead); err == nil {
		t.Errorf("the record is in %v", record)
	}
	if backups, err := q.openBackups(t.Context(), o, toRead); err != nil || fmt.Sprint(backups) != c {
		t.Errorf("the backups are in %v (%v)", backups, err)
	}
	q.store = ""
	if _, err := q.openBackups(t.Context(), o, toRead); err == nil || !strings.Contains(err.Error(), "no backup store") {
		t.Error(err)
	}
}

// etcd-manager-ctl writes the spec where the record is, and lists backups where they are.
func TestCtlWithTwoStores(t *testing.T) {
	record, backups := file.URL(t.TempDir()), file.URL(t.TempDir())
	run := func(args ...string) (int, string) {
		var out, errs strings.Builder
		code := CtlMain(t.Context(), args, &out, &errs)
		return code, out.String() + errs.String()
	}
	if code, said := run("--control-store="+record, "--backup-store="+backups, "--member-count=3", "--etcd-version=3.6.16", "configure-cluster"); code != ExitOK {
		t.Fatalf("%d: %s", code, said)
	}
	if code, said := run("--control-store="+record, "get"); code != ExitOK || !strings.Contains(said, "member_count:3") {
		t.Errorf("%d: %s", code, said)
	}
	if code, said := run("--backup-store="+backups, "get"); code != ExitNoCluster {
		t.Errorf("%d: %s", code, said)
	}
	if code, said := run("--control-store="+record, "list-backups"); code != ExitUsage || !strings.Contains(said, "--backup-store") {
		t.Errorf("%d: %s", code, said)
	}
	if code, said := run("--control-store="+record, "--backup-store="+backups, "list-backups"); code != ExitOK {
		t.Errorf("%d: %s", code, said)
	}
}
