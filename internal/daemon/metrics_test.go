package daemon

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/release"
)

var testProgram = Program{Build: "9.9.9", Builtin: &release.Builtin{Version: "3.6.16"}}

// metrics are the values that a report gives, by name and, where there is one beside the
// cluster's, by the value of the first label.
func metrics(t *testing.T, w *watch) map[string]float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			of, first := "", ""
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() == "cluster":
					of = l.GetValue()
				case first == "":
					first = "/" + l.GetValue()
				}
			}
			if of != "blue" {
				t.Errorf("%s is of cluster %q", name, of)
			}
			name += first
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// isUp: a daemon that has started.
func isUp() string { return "" }

func TestMetricsOfBackups(t *testing.T) {
	now := time.Now()
	last := cluster.Backup{Name: "n2", At: now.Add(-time.Hour), Bytes: 4096}
	proven := cluster.Backup{Name: "n1", At: now.Add(-2 * time.Hour), Proven: true}
	r := console.Report{Leading: true, Observation: &cluster.Observation{
		At: now, Paused: []cluster.Pause{{Host: "b", From: now, Until: now.Add(time.Hour)}, {Host: "c", From: now, Until: now}},
		Backups: cluster.BackupsView{At: now, Newest: []cluster.Backup{last, proven}}, Commands: []cluster.Command{{Name: "c"}},
		Store: cluster.StoreView{Intent: &cluster.Intent{Generation: 2, Quarantined: true}},
		Hosts: []cluster.HostReport{{HostState: cluster.HostState{
			Host: "a", SetAside: []cluster.SetAside{{Bytes: 5}, {Bytes: 6}},
			Taken: &cluster.Taken{Began: last.At, Ended: last.At.Add(3 * time.Second), Backup: &last},
			Drill: &cluster.Taken{Began: now.Add(-time.Minute), Ended: now.Add(-time.Minute), Error: "it differs"},
		}}},
	}}
	r.Backups = console.BackupsOf(r.Observation, now)
	w := newWatch("blue", testProgram, func() console.Report { return r }, isUp)
	w.countDropped(func() uint64 { return 7 })
	w.backups.WithLabelValues(resultOf(nil)).Inc()
	w.backups.WithLabelValues(resultOf(errors.New("no room"))).Inc()
	got := metrics(t, w)
	for name, want := range map[string]float64{
		"etcdadm_backup_last_success_timestamp_seconds": float64(last.At.Unix()),
		"etcdadm_backup_proven_timestamp_seconds":       float64(proven.At.Unix()),
		"etcdadm_backup_size_bytes":                     4096,
		"etcdadm_backup_duration_seconds":               3,
		"etcdadm_backup_drill_ok":                       0,
		"etcdadm_backups_total/ok":                      1,
		"etcdadm_backups_total/failed":                  1,
		"etcdadm_backup_drills_total/failed":            0,
		"etcdadm_restores_total":                        0,
		"etcdadm_log_lines_dropped_total":               7,
		"etcdadm_generation":                            2,
		"etcdadm_quarantined":                           1,
		"etcdadm_commands_queued":                       1,
		"etcdadm_set_aside_bytes/a":                     11,
		"etcdadm_host_paused_until_timestamp_seconds/b": float64(now.Add(time.Hour).Unix()),
		"etcdadm_self_managed":                          1,
	} {
		if is, ok := got[name]; !ok || is != want {
			t.Errorf("%s is %v (there: %t), want %v", name, is, ok, want)
		}
	}
	if age := got["etcdadm_backup_age_seconds"]; age < 3600 || age > 3700 {
		t.Errorf("the backup is %v s old", age)
	}
	if age := got["etcdadm_backup_drill_age_seconds"]; age < 60 || age > 160 {
		t.Errorf("the drill was %v s ago", age)
	}
	if _, ok := got["etcdadm_host_paused_until_timestamp_seconds/c"]; ok {
		t.Error("a pause that is over")
	}
	// A daemon that does not lead knows none of it, and an empty store is no zero age.
	r = console.Report{}
	if _, ok := metrics(t, w)["etcdadm_backup_age_seconds"]; ok {
		t.Error("an age from a daemon that does not lead")
	}
	r = console.Report{Leading: true, Observation: &cluster.Observation{At: now}, Backups: &console.Backups{}}
	got = metrics(t, w)
	if _, ok := got["etcdadm_backup_age_seconds"]; ok || got["etcdadm_backup_last_success_timestamp_seconds"] != 0 {
		t.Error("an age of no backup")
	}
}

func TestMetricsOfUpkeep(t *testing.T) {
	compared := time.Now().Add(-time.Hour)
	o := &cluster.Observation{At: time.Now(), Hosts: []cluster.HostReport{{HostState: cluster.HostState{
		Host: "a", Local: cluster.LocalMember{State: cluster.MemberStarted, Member: 1, Cluster: 7},
		Status: &cluster.MemberStatus{Member: 1, Cluster: 7, DBSize: 100, DBInUse: 40, Alarms: []string{"NOSPACE 1"}},
		View:   &cluster.MemberView{Cluster: 7, Members: []cluster.Member{{ID: 1}}},
	}}}}
	o.Memory.Upkeep.ComparedAt = compared
	w := newWatch("blue", testProgram, func() console.Report { return console.Report{Leading: true, Observation: o} }, isUp)
	got := metrics(t, w)
	for name, want := range map[string]float64{
		"etcdadm_alarms/NOSPACE": 1, "etcdadm_alarms/CORRUPT": 0,
		"etcdadm_keys_compared_timestamp_seconds": float64(compared.Unix()),
		"etcdadm_database_file_bytes/a":           100,
		"etcdadm_database_in_use_bytes/a":         40,
		"etcdadm_database_quota_bytes/a":          cluster.DefaultQuota,
		"etcdadm_member_up/a":                     0, // its host has promised nothing
		"etcdadm_build_info/3.6.16":               1,
	} {
		if v, is := got[name]; !is || v != want {
			t.Errorf("%s = %v (%t), want %v", name, v, is, want)
		}
	}
}

// What a daemon shows of a certificate, and of each member, by what a dashboard selects by.
func TestMetricsOfMembersAndCertificates(t *testing.T) {
	ends := time.Now().Add(time.Hour)
	o := &cluster.Observation{At: time.Now(), Fence: cluster.Fence{Number: 3, Host: "a"}}
	for i, id := range []cluster.HostID{"a", "b"} {
		member := cluster.MemberID(i + 1)
		h := cluster.HostReport{UnderFence: true, HostState: cluster.HostState{
			Host: id, Promised: o.Fence, Local: cluster.LocalMember{State: cluster.MemberStarted, Member: member, Cluster: 7, HasData: true}, Process: cluster.Process{State: cluster.ProcessRunning},
			View: &cluster.MemberView{Cluster: 7, Linearizable: true, Members: []cluster.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}},
		}}
		if id == "a" {
			h.Status = &cluster.MemberStatus{Member: member, Cluster: 7, Leader: 1, Healthy: true}
		}
		o.Hosts = append(o.Hosts, h)
	}
	w := newWatch("blue", testProgram, func() console.Report {
		return console.Report{Leading: true, Observation: o, Certificates: []console.Certificate{{Name: "daemon", NotAfter: ends}}}
	}, isUp)
	got := metrics(t, w)
	for name, want := range map[string]float64{
		"etcdadm_member_up/a": 1, "etcdadm_member_up/b": 0, "etcdadm_certificate_not_after_timestamp_seconds/daemon": float64(ends.Unix()),
	} {
		if v, is := got[name]; !is || v != want {
			t.Errorf("%s = %v (%t), want %v", name, v, is, want)
		}
	}
}
