package plan

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/record"
)

// told gives the sentences of a code.
func told(o *cluster.Observation, code string) (out []string) {
	for _, b := range Next(decision.Goal{Kind: decision.Converge}, o).Blockers {
		if b.Code == code {
			out = append(out, b.Sentence.String()+" | "+b.Remedy())
		}
	}
	return out
}

// What ought to be the same on every host is told where it is not, one line a flag; a
// host that does not say it differs from nobody.
func TestSettingsThatDiffer(t *testing.T) {
	const recipient, dead = "--backup-recipient", "--dead-after"
	set := func(o *cluster.Observation, id cluster.HostID, flag, value string) {
		h, _ := o.Host(id)
		h.Settings = append(h.Settings, cluster.HostSetting{Flag: flag, Value: value})
	}
	o := formedSight(t)
	for _, id := range []cluster.HostID{"a", "b"} {
		set(o, id, recipient, "age1x")
		set(o, id, dead, "2m")
	}
	if got := told(o, "settings-differ"); len(got) != 0 {
		t.Errorf("equal ones, and hosts that do not say: %q", got)
	}
	set(o, "c", recipient, "")
	set(o, "c", dead, "2m")
	got := told(o, "settings-differ")
	if len(got) != 1 || !strings.HasPrefix(got[0], "--backup-recipient differs between hosts (age1x on a, b; not set on c)") || !strings.Contains(got[0], "same --backup-recipient") {
		t.Errorf("%q", got)
	}
	set(o, "d", dead, "5m")
	if got := told(o, "settings-differ"); len(got) != 2 || !strings.Contains(got[1], "--dead-after differs between hosts (2m on a, b, c; 5m on d)") {
		t.Errorf("%q", got)
	}
}

// A plain backup after an encrypted one is told of, for a week.
func TestPlainBackupAfterAnEncryptedOne(t *testing.T) {
	o := formedSight(t)
	at := func(name string, ago time.Duration, encrypted bool) cluster.Backup {
		return cluster.Backup{Name: name, At: o.At.Add(-ago), Encrypted: encrypted}
	}
	before := at("B1", time.Hour, true)
	see := func(encrypted *cluster.Backup, newest ...cluster.Backup) []string {
		o.Backups = cluster.BackupsView{At: o.At, Newest: newest, Encrypted: encrypted}
		return told(o, "backup-unprotected")
	}
	plain := at("B2", time.Minute, false)
	if got := see(&before, plain, before); len(got) != 1 || !strings.HasPrefix(got[0], "backup B2 is not encrypted, and B1 before it was") || !strings.Contains(got[0], "--backup-recipient") {
		t.Errorf("%q", got)
	}
	if got := see(&before, plain, plain, plain); len(got) != 1 {
		t.Errorf("further back than the newest few: %q", got)
	}
	old := at("B0", record.ProtectedFor+time.Second, true)
	for name, got := range map[string][]string{
		"none is encrypted":       see(nil, plain),
		"the newest is again":     see(&before, before, plain),
		"encryption was given up": see(&old, plain),
		"no backup is listed":     see(&before),
	} {
		if len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}
