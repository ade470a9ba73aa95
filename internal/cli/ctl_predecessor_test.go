package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	fixtureBackup = "2026-11-20T23:14:17Z-000001"
	fixtureOther  = "2026-11-20T23:16:18Z-000003"
)

// predecessorStore unpacks a store that the predecessor's daemon wrote.
func predecessorStore(t *testing.T) (dir, flag string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join("..", "backupstore", "testdata", "etcd-manager-store-3.5.35.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", packed, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	return dir, "--backup-store=file://" + dir
}

// ctlOut runs a ctl that must succeed, and gives what it says behind its first
// line.
func ctlOut(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := runCtl(t, args...)
	first, rest, _ := strings.Cut(out, "\n")
	if code != ExitOK || !strings.HasPrefix(first, "Backup Store: ") {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out, errs)
	}
	return rest
}

func queueByHand(t *testing.T, dir, name, command string) {
	t.Helper()
	path := filepath.Join(dir, "control", name, "_command.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(command), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The lines are what protobuf's own printers make of the same messages:
// github.com/golang/protobuf v1.5.4 for commands, and fmt's %v of a message for
// the spec.
func TestCtlSpeaksAsThePredecessors(t *testing.T) {
	dir, store := predecessorStore(t)
	if got, want := ctlOut(t, store), "member_count:3 etcd_version:\"3.5.35\"\n"; got != want {
		t.Errorf("get: %q, want %q", got, want)
	}
	if got, want := ctlOut(t, store, "list-backups"), "2026-11-20T23:13:17Z-000001\n"+fixtureBackup+"\n"+fixtureOther+"\n2026-11-20T23:17:49Z-000001\n2026-11-20T23:21:17Z-000001\n"; got != want {
		t.Errorf("list-backups: %q, want %q", got, want)
	}
	if got := ctlOut(t, store, "list-commands"); got != "" {
		t.Errorf("an empty queue: %q", got)
	}
	queueByHand(t, dir, "2026-11-21T10:00:01Z-000000", `{"timestamp":"1795216748123456790", "restoreBackup":{"backup":"`+fixtureOther+`"}}`)
	queueByHand(t, dir, "2026-11-21T10:00:00Z-000000", `{"timestamp":"1795216748123456789", "restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"},"backup":"`+fixtureBackup+`"}}`)
	want := `timestamp:1795216748123456789 restore_backup:<cluster_spec:<member_count:3 etcd_version:"3.6.16" > backup:"` + fixtureBackup + `" > ` + "\n" +
		`timestamp:1795216748123456790 restore_backup:<backup:"` + fixtureOther + `" > ` + "\n"
	if got := ctlOut(t, store, "list-commands"); got != want {
		t.Errorf("list-commands:\n%q, want\n%q", got, want)
	}
	if got := ctlOut(t, store, "list-commands", "--all"); !strings.Contains(got, "2026-11-21T10:00:00Z-000000\trestore-backup "+fixtureBackup+"\n") {
		t.Errorf("list-commands --all has no names: %q", got)
	}
	if got, want := ctlOut(t, "-etcd-version=3.6.16", store, "configure-cluster"), "set cluster spec to member_count:3 etcd_version:\"3.6.16\"\n"; got != want {
		t.Errorf("configure-cluster: %q, want %q", got, want)
	}
}

// What is not said to configure-cluster stays as it is.
func TestCtlConfiguresInPart(t *testing.T) {
	dir, store := predecessorStore(t)
	spec := filepath.Join(dir, "control", "etcd-cluster-spec")
	for _, c := range []struct {
		before string // empty: as it is
		args   []string
		want   string
	}{
		{"", []string{"-member-count=5"}, `member_count:5 etcd_version:"3.5.35"`},
		{"", []string{"--etcd-version", "3.6.16"}, `member_count:5 etcd_version:"3.6.16"`},
		{`{"member_count":"2","etcd_version":"3.6.16"}`, []string{"-member-count", "3"}, `member_count:3 etcd_version:"3.6.16"`}, // mends what it refused
		{`{"etcdVersion":"3.6.16","memberCount":4}`, []string{"-member-count=3", "-etcd-version=3.7.3"}, `member_count:3 etcd_version:"3.7.3"`},
		{`{`, []string{"-member-count=1", "-etcd-version=3.7.3"}, `member_count:1 etcd_version:"3.7.3"`}, // all of it is said
	} {
		if c.before != "" {
			if err := os.WriteFile(spec, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := ctlOut(t, append(c.args, store, "configure-cluster")...); got != "set cluster spec to "+c.want+"\n" {
			t.Errorf("%q over %s: %q", c.args, c.before, got)
		}
		if got := ctlOut(t, store, "get"); got != c.want+"\n" {
			t.Errorf("%q over %s was not written: %q", c.args, c.before, got)
		}
	}
	for name, c := range map[string]struct {
		before string
		args   []string
		want   string
	}{
		"half of a spec that cannot be read": {`{`, []string{"-member-count=3"}, "not a JSON object"},
		"zero is a count":                    {`{"memberCount":3,"etcdVersion":"3.6.16"}`, []string{"-member-count=0", "-etcd-version=3.6.16"}, "missing or zero"},
		"an empty version":                   {`{"memberCount":3,"etcdVersion":"3.6.16"}`, []string{"-member-count=3", "-etcd-version="}, "not empty"},
		"nothing":                            {`{"memberCount":3,"etcdVersion":"3.6.16"}`, nil, "--etcd-version is required"},
		"a version and no count at all":      {`{"etcdVersion":"3.6.16"}`, []string{"-etcd-version=3.7.3"}, "missing or zero"},
		"even, with the version that is":     {`{"memberCount":3,"etcdVersion":"3.6.16"}`, []string{"-member-count=4"}, "is even"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(spec, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			code, _, errs := runCtl(t, append(c.args, store, "configure-cluster")...)
			if code == ExitOK || !strings.Contains(errs, c.want) {
				t.Errorf("%d %q, want %q", code, errs, c.want)
			}
			if now, err := os.ReadFile(spec); err != nil || string(now) != c.before {
				t.Errorf("what was refused has written %s (%v)", now, err)
			}
		})
	}
}

// Keys that nobody knows are told and not written again: the predecessor's
// daemon reads no spec that has one.
func TestCtlDropsUnknownKeysOfTheSpecAloud(t *testing.T) {
	dir, store := predecessorStore(t)
	spec := filepath.Join(dir, "control", "etcd-cluster-spec")
	if err := os.WriteFile(spec, []byte(`{"memberCount":3,"etcdVersion":"3.5.35","color":"blue"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runCtl(t, store, "get"); code != ExitOK || !strings.HasSuffix(out, "\nmember_count:3 etcd_version:\"3.5.35\"\n") || !strings.Contains(errs, `"color"`) {
		t.Errorf("%d %q %q", code, out, errs)
	}
	code, _, errs := runCtl(t, store, "-etcd-version=3.6.16", "configure-cluster")
	now, err := os.ReadFile(spec)
	if code != ExitOK || !strings.Contains(errs, `"color"`) || !strings.Contains(errs, "not written again") || err != nil || bytes.Contains(now, []byte("color")) {
		t.Errorf("%d %q: %s (%v)", code, errs, now, err)
	}
}

func TestCtlDeletesCommandsByBackupTimestampAndName(t *testing.T) {
	dir, store := predecessorStore(t)
	fill := func() {
		for i, b := range []string{fixtureBackup, fixtureOther, fixtureBackup} {
			queueByHand(t, dir, fmt.Sprintf("2026-11-21T10:00:0%dZ-000000", i), fmt.Sprintf(`{"timestamp":"179521674812345678%d","restoreBackup":{"backup":%q}}`, i, b))
		}
		queueByHand(t, dir, "2026-11-21T10:00:09Z-000000", `{`)
	}
	const damaged = "2026-11-21T10:00:09Z-000000\tcannot be run: "
	for word, left := range map[string][]string{
		fixtureBackup:                 {"timestamp:1795216748123456781 ", damaged},
		"1795216748123456782":         {"timestamp:1795216748123456780 ", "timestamp:1795216748123456781 ", damaged},
		"2026-11-21T10:00:01Z-000000": {"timestamp:1795216748123456780 ", "timestamp:1795216748123456782 ", damaged},
		"2026-11-21T10:00:09Z-000000": {"timestamp:1795216748123456780 ", "timestamp:1795216748123456781 ", "timestamp:1795216748123456782 "},
	} {
		t.Run(word, func(t *testing.T) {
			fill()
			ctlOut(t, "delete-command", word, store)
			lines := strings.Split(strings.TrimSuffix(ctlOut(t, store, "list-commands"), "\n"), "\n")
			if len(lines) != len(left) {
				t.Fatalf("left are %q, want %q", lines, left)
			}
			for i := range left {
				if !strings.HasPrefix(lines[i], left[i]) {
					t.Errorf("left are %q, want %q", lines, left)
				}
			}
		})
	}
	fill()
	before := ctlOut(t, store, "list-commands")
	for _, words := range [][]string{{"2026-01-01T00:00:00Z-000000"}, {"179521674812345678"}, {".."}, {"../control"}, {"etcd-cluster-spec"}, {""}, {fixtureBackup, fixtureOther}, nil} {
		if code, _, errs := runCtl(t, append([]string{store, "delete-command"}, words...)...); code == ExitOK || !strings.Contains(errs, "hint:") {
			t.Errorf("delete-command %q: %d %q", words, code, errs)
		}
	}
	if after := ctlOut(t, store, "list-commands"); after != before {
		t.Errorf("refused words deleted: %q, then %q", before, after)
	}
}

// Go's flags have one dash or two, and klog's are given to everything.
func TestCtlFlagsInAnyShape(t *testing.T) {
	dir, _ := predecessorStore(t)
	url := "file://" + dir
	const want = "member_count:3 etcd_version:\"3.5.35\"\n"
	for _, args := range [][]string{
		{"-backup-store=" + url}, {"--backup-store", url}, {"-backup-store", url, "get"}, {"get", "-backup-store", url},
		{"-v", "4", "-backup-store", url, "get"}, {"-v=4", "-logtostderr", "get", "--backup-store=" + url}, {"--alsologtostderr=true", "-vmodule", "a=1", "--stderrthreshold", "2", "-backup-store=" + url, "get"},
		{"-backup-store=file:///nowhere", "-backup-store=" + url}, // the last one counts
		{"-backup-store=" + url + "/"}, {"-backup-store=" + url + "///"}, {"-backup-store=" + url + "/../" + filepath.Base(dir)}, {"-backup-store=" + url + "/./control/.."},
	} {
		if got := ctlOut(t, args...); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	for _, args := range [][]string{{"-backup-store"}, {"---backup-store=" + url}, {"-backup-store=" + url, "-member-count=three"}, {"-backup-store=" + url, "-v"}} {
		if code, _, errs := runCtl(t, args...); code != ExitUsage {
			t.Errorf("%q: %d %q", args, code, errs)
		}
	}
	if code, out, _ := runCtl(t, "-h"); code != ExitOK || !strings.Contains(out, "-member-count") || strings.Contains(out, "vmodule") {
		t.Errorf("the help is %d %s", code, out)
	}
}

// A restore command says what the store asks for, not what the backup was of:
// the predecessor's daemon puts the command's spec in force.
func TestCtlRestoreCommandHasTheSpecOfTheStore(t *testing.T) {
	dir, store := predecessorStore(t)
	ctlOut(t, store, "-member-count=5", "-etcd-version=3.6.16", "configure-cluster")
	if out := ctlOut(t, store, "restore-backup", fixtureBackup); !strings.Contains(out, "list-commands --all") {
		t.Errorf("it does not say where the end of it is told:\n%s", out)
	}
	if got := ctlOut(t, store, "list-commands"); !strings.Contains(got, ` restore_backup:<cluster_spec:<member_count:5 etcd_version:"3.6.16" > backup:"`+fixtureBackup+`" > `) {
		t.Errorf("%q", got)
	}
	ctlOut(t, store, "delete-command", fixtureBackup)
	if r := etcdadm(t, "restore", fixtureBackup, "--store", strings.TrimPrefix(store, "--backup-store="), "--yes"); r.code != ExitOK {
		t.Fatalf("%+v", r)
	}
	if got := ctlOut(t, store, "list-commands"); !strings.Contains(got, ` restore_backup:<cluster_spec:<member_count:5 etcd_version:"3.6.16" > backup:`) {
		t.Errorf("by etcdadm: %q", got)
	}
	spec := filepath.Join(dir, "control", "etcd-cluster-spec")
	for _, content := range []string{"{", `{"memberCount":2,"etcdVersion":"3.6.16"}`, ""} {
		ctlOut(t, store, "delete-command", fixtureBackup)
		if err := os.WriteFile(spec, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if content == "" {
			if err := os.Remove(spec); err != nil {
				t.Fatal(err)
			}
		}
		ctlOut(t, store, "restore-backup", fixtureBackup)
		if got := ctlOut(t, store, "list-commands"); !strings.Contains(got, `cluster_spec:<member_count:3 etcd_version:"3.5.35" >`) {
			t.Errorf("with the spec %q in the store: %q", content, got)
		}
	}
}

func TestCtlRestoreOfWhatCannotBe(t *testing.T) {
	dir, store := predecessorStore(t)
	bad := func(name, meta string, files ...string) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "_etcd_backup.meta"), []byte(meta), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, name, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const ok, file = `{"etcdVersion":"3.5.35"}`, "etcd.backup.gz"
	bad("2026-01-01T00:00:00Z-000001", `{`, file)
	bad("2026-01-01T00:00:00Z-000002", ``, file)
	bad("2026-01-01T00:00:00Z-000003", `{"timestamp":"1"}`, file)
	bad("2026-01-01T00:00:00Z-000004", ok)
	bad("2026-01-01T00:00:00Z-000005", `{"etcdVersion":"3.5.35","color":"blue"}`, file) // unknown keys do no harm
	bad("manual", ok, file)
	if err := os.Remove(filepath.Join(dir, fixtureOther, "_etcd_backup.meta")); err != nil {
		t.Fatal(err)
	}
	for word, c := range map[string]struct {
		code int
		want string
	}{
		"2026-01-01T00:00:00Z-000001":              {ExitUnsafe, "malformed"},
		"2026-01-01T00:00:00Z-000002":              {ExitUnsafe, "malformed"},
		"2026-01-01T00:00:00Z-000003":              {ExitUnsafe, "no etcdVersion"},
		"2026-01-01T00:00:00Z-000004":              {ExitUnsafe, "no snapshot"},
		fixtureOther:                               {ExitError, "no such backup: it is incomplete: its folder holds etcd.backup.gz"}, // without a meta it is none
		"2026-01-01T00:00:00Z-000009":              {ExitError, "list-backups"},
		"manual":                                   {ExitUsage, "not a backup name"},
		"control":                                  {ExitUsage, "not a backup name"},
		"":                                         {ExitUsage, "not a backup name"},
		dir + "/" + fixtureBackup:                  {ExitUsage, "write restore-backup " + fixtureBackup},
		"file://" + dir + "/" + fixtureBackup:      {ExitUsage, "write restore-backup " + fixtureBackup},
		fixtureBackup + "/":                        {ExitUsage, "write restore-backup " + fixtureBackup},
		fixtureBackup + "/etcd.backup.gz":          {ExitUsage, "write restore-backup " + fixtureBackup},
		"../" + filepath.Base(dir) + "/" + "other": {ExitUsage, "not a backup name"},
	} {
		code, _, errs := runCtl(t, store, "restore-backup", word)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %q, want %d with %q", word, code, errs, c.code, c.want)
		}
	}
	if got := ctlOut(t, store, "list-commands"); got != "" {
		t.Errorf("what was refused is queued: %q", got)
	}
	ctlOut(t, store, "restore-backup", "2026-01-01T00:00:00Z-000005")
	code, out, errs := runCtl(t, store, "list-backups")
	if code != ExitOK || strings.Contains(out, "manual") || strings.Contains(out, fixtureOther) || !strings.Contains(errs, `"manual"`) {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A store that is there and empty is no mistake for who only looks.
func TestCtlOfAnEmptyStore(t *testing.T) {
	dir := t.TempDir()
	store := "--backup-store=file://" + dir + "/"
	for _, command := range []string{"list-backups", "list-commands"} {
		if got := ctlOut(t, store, command); got != "" {
			t.Errorf("%s: %q", command, got)
		}
	}
	for _, words := range [][]string{{"get"}, {"restore-backup", fixtureBackup}, {"delete-command", fixtureBackup}} {
		if code, _, errs := runCtl(t, append([]string{store}, words...)...); code == ExitOK || !strings.Contains(errs, "hint:") {
			t.Errorf("%q: %d %q", words, code, errs)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("looking left %v (%v)", left, err)
	}
}

// etcd-backup's flags with their values behind a space, and etcd-backup-ctl's
// and etcd-dump's as the predecessor's users write them.
func TestOtherToolsOfTheFamily(t *testing.T) {
	dir, store := predecessorStore(t)
	run := func(main func(context.Context, []string, *bytes.Buffer, *bytes.Buffer) int, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := main(t.Context(), args, &out, &errs)
		return code, out.String(), errs.String()
	}
	self := func() (string, []string) { return "/proc/self/exe", nil }
	ctl := func(ctx context.Context, args []string, out, errs *bytes.Buffer) int {
		return BackupCtlMain(ctx, args, Program("0.0.0", self, self), out, errs)
	}
	dump := func(ctx context.Context, args []string, out, errs *bytes.Buffer) int {
		return DumpMain(ctx, args, out, errs)
	}
	coprocess := func(ctx context.Context, args []string, out, errs *bytes.Buffer) int {
		return BackupMain(ctx, args, out, errs)
	}

	code, out, errs := run(ctl, "-v", "2", store)
	if want := "etcd-backup-ctl\n2026-11-20T23:13:17Z-000001\n"; code != ExitOK || !strings.HasPrefix(out, want) {
		t.Errorf("etcd-backup-ctl: %d %q %q, want %q", code, out, errs, want)
	}
	for _, from := range []string{"file://" + dir + "/" + fixtureBackup, dir + "/" + fixtureBackup + "/"} {
		to := filepath.Join(t.TempDir(), "out")
		if code, out, errs := run(dump, "-data-dir", from, "-out", to, "-logtostderr"); code != ExitOK {
			t.Errorf("etcd-dump %s: %d %q %q", from, code, out, errs)
		}
		listed, err := exec.CommandContext(t.Context(), "tar", "-tzf", to).CombinedOutput()
		if err != nil || strings.Count(string(listed), "\n") < 5001 {
			t.Errorf("the archive of %s has %d lines (%v)", from, strings.Count(string(listed), "\n"), err)
		}
	}
	if code, out, errs := run(dump, "-data-dir=file://"+dir+"/"+fixtureBackup); code != ExitOK || strings.Count(out, "\n") < 5001 {
		t.Errorf("etcd-dump without -out: %d, %d lines, %q", code, strings.Count(out, "\n"), errs)
	}
	for _, args := range [][]string{{"-data-dir=x"}, {"-data-dir=/"}, {"-data-dir=file:///"}, {"-data-dir=/a"}, {"-data-dir=/a/b", "c"}, {"-data-dir=/a/b", store}, {}} {
		if code, _, errs := run(dump, args...); code != ExitUsage {
			t.Errorf("etcd-dump %q: %d %q", args, code, errs)
		}
	}
	// It gets as far as the store: no flag and no value was taken for a word.
	code, _, errs = run(coprocess, "-cluster-name", "c", "-backup-store", "file://"+t.TempDir(), "-data-dir", "/data", "-v", "2", "-interval", "1m", "-client-url", "http://127.0.0.1:1", "-once")
	if code == ExitOK || code == ExitUsage || strings.Contains(errs, "do not know") {
		t.Errorf("etcd-backup: %d %q", code, errs)
	}
}
