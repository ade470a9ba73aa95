package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
)

// aStore is one that etcd-manager wrote, with two backups of now: one that was
// looked at, and one that was only written.
func aStore(t *testing.T) (dir, url string) {
	dir, flag := predecessorStore(t)
	t.Setenv("ETCDADM_STORE", "")
	t.Setenv("ETCDADM_DATA_DIR", "")
	return dir, strings.TrimPrefix(flag, "--backup-store=")
}

func inStore(t *testing.T, dir, name, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name, file), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A size is printed in one manner, wherever it stands.
func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 848: "848 B", 1023: "1023 B", 1024: "1.0 KiB", 20 << 10: "20 KiB", 1<<20 - 1: "1023 KiB", 3 << 20: "3.0 MiB", 12<<20 + 9: "12 MiB", 5 << 29: "2.5 GiB", 1 << 40: "1024 GiB",
	} {
		if got := sizeWords(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

func rowOf(t *testing.T, table, name string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 7 && f[0] == name {
			return f
		}
	}
	t.Fatalf("%s has no row in\n%s", name, table)
	return nil
}

// What is not known is not shown as a figure; a lower bound is shown as one, and
// a look at the snapshot makes it exact.
func TestBackupRevisions(t *testing.T) {
	dir, url := aStore(t)
	list := func() string { return etcdadm(t, "backup", "list", "--store", url).must(t) }
	if row := rowOf(t, list(), fixtureBackup); row[len(row)-5] != "–" || row[len(row)-4] != "–" {
		t.Errorf("nothing is known of it: %q", row)
	}
	inStore(t, dir, fixtureBackup, backup.FileManifest, `{"format":1,"etcdVersion":"3.5.35","reason":"periodic","cluster":"blue","host":"host-1","position":{"revision":7,"term":3,"index":9},"duration":412000000}`)
	if out := list(); !strings.Contains(out, "≥ 7 ") || !strings.Contains(out, "≥: what the member said before") {
		t.Errorf("a lower bound is not shown as one:\n%s", out)
	}
	show := etcdadm(t, "backup", "show", fixtureBackup, "--store", url).must(t)
	for _, want := range []string{"at least 7, where the member was", "– (nobody counted them", "412ms", "verified  never"} {
		if !strings.Contains(show, want) {
			t.Errorf("show lacks %q:\n%s", want, show)
		}
	}
	shown := map[string]string{}
	for line := range strings.Lines(show) {
		name, value, _ := strings.Cut(line, "  ")
		shown[name] = strings.TrimSpace(value)
	}
	if got := shown["revision"]; !strings.HasPrefix(got, "at least 7, ") {
		t.Errorf("a lower bound is shown as revision %q", got)
	}
	for name, want := range map[string]string{
		"name": fixtureBackup, "reason": "periodic", "cluster": "blue, 0, member 0 on host host-1", "raft": "term 3, index 9 at least", "took": "412ms", "pinned": "no", "etcd": "3.5.35",
	} {
		if shown[name] != want {
			t.Errorf("%s is shown as %q, want %q", name, shown[name], want)
		}
	}
	if strings.Contains(show, "412000000") {
		t.Errorf("nanoseconds are for programs:\n%s", show)
	}
	verified := etcdadm(t, "backup", "verify", fixtureBackup, "--store", url).must(t)
	var rows []listedBackup
	decode(t, etcdadm(t, "backup", "list", "--store", url, "-o", "json").must(t), &rows)
	for _, r := range rows {
		if r.Name == fixtureBackup && (r.Revision <= 7 || r.AtLeast || r.Proven != "content") {
			t.Errorf("after %q: %+v", verified, r)
		}
	}
}

// Which backups are encrypted stands in the list: the name of the file says it, with
// a manifest and without one.
func TestBackupListTellsEncryption(t *testing.T) {
	dir, url := aStore(t)
	const key = "2026-11-21T03:00:00Z-000009"
	if err := os.Mkdir(filepath.Join(dir, key), 0o700); err != nil {
		t.Fatal(err)
	}
	inStore(t, dir, key, backup.FileMeta, `{"etcdVersion":"3.6.16"}`)
	inStore(t, dir, key, backup.Encoding{Compression: backup.Gzip, Encrypted: true}.File(), "age-encryption.org/v1")
	out := etcdadm(t, "backup", "list", "--store", url).must(t)
	heading, _, _ := strings.Cut(out, "\n")
	if f := strings.Fields(heading); len(f) != 10 || f[7] != "ENCRYPTED" {
		t.Fatalf("no column ENCRYPTED in %q", heading)
	}
	if row := rowOf(t, out, key); row[len(row)-2] != "yes" {
		t.Errorf("an encrypted one: %q", row)
	}
	if row := rowOf(t, out, fixtureBackup); row[len(row)-2] != "no" {
		t.Errorf("a plain one: %q", row)
	}
	var rows []listedBackup
	decode(t, etcdadm(t, "backup", "list", "--store", url, "-o", "json").must(t), &rows)
	for _, r := range rows {
		if r.Encrypted != (r.Name == key) {
			t.Errorf("%+v", r)
		}
	}
}

// A file with secret keys that is named is read, or it is said that it cannot be.
func TestBackupIdentity(t *testing.T) {
	_, url := aStore(t)
	for _, command := range []string{"verify", "drill"} {
		if s := etcdadm(t, "backup", command, fixtureBackup, "--store", url, "--identity", "/does/not/exist"); s.code != ExitError || !strings.Contains(s.errs, "/does/not/exist") {
			t.Errorf("%s: exit %d, %s%s", command, s.code, s.out, s.errs)
		}
	}
}

// A backup that is asked for to be kept says so in the queue, and in the list once it is there.
func TestBackupKeepFor(t *testing.T) {
	dir, url := aStore(t)
	etcdadm(t, "backup", "create", "--store", url, "--keep-for", "90d").must(t)
	if out := etcdadm(t, "queue", "list", "--store", url).must(t); !strings.Contains(out, "backup --keep-for 90d") {
		t.Errorf("the queue says\n%s", out)
	}
	if s := etcdadm(t, "backup", "create", "--store", url, "--keep-for", "-1h"); s.code == ExitOK {
		t.Errorf("a backup is kept for less than nothing:\n%s", s.out)
	}
	const name = "2026-11-21T03:00:00Z-000009"
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	inStore(t, dir, name, "etcd.backup.gz", "x")
	inStore(t, dir, name, backup.FileManifest, string(backup.Manifest{KeepUntil: time.Date(2027, 2, 19, 3, 0, 0, 0, time.UTC)}.Encode()))
	inStore(t, dir, name, backup.FileMeta, `{"etcdVersion":"3.6.16"}`)
	if out := etcdadm(t, "backup", "list", "--store", url).must(t); !strings.Contains(out, "until 2027-02-19 03:00:00") {
		t.Errorf("the list says\n%s", out)
	}
	var rows []listedBackup
	decode(t, etcdadm(t, "backup", "list", "--store", url, "-o", "json").must(t), &rows)
	if rows[0].Name != name || rows[0].KeepUntil.Year() != 2027 {
		t.Errorf("%+v", rows)
	}
	if out := etcdadm(t, "backup", "show", name, "--store", url).must(t); !strings.Contains(out, "2027-02-19T03:00:00Z at least") {
		t.Errorf("it shows\n%s", out)
	}
}

func TestBackupPin(t *testing.T) {
	_, url := aStore(t)
	if out := etcdadm(t, "backup", "pin", fixtureBackup, "before the\nmove", "--store", url).must(t); !strings.Contains(out, "pinned "+fixtureBackup) {
		t.Errorf("pin says %q", out)
	}
	out := etcdadm(t, "backup", "list", "--store", url).must(t)
	if !strings.Contains(out, "PINNED") || !strings.Contains(out, "before the; move\n") {
		t.Errorf("the pin is not listed:\n%s", out)
	}
	if out := etcdadm(t, "backup", "pin", fixtureBackup, "", "--store", url).must(t); !strings.Contains(out, "not pinned any longer") {
		t.Errorf("the end of a pin says %q", out)
	}
}

// A problem takes one line below the table, whatever its text is like.
func TestBackupListOfDamage(t *testing.T) {
	dir, url := aStore(t)
	problem, err := json.Marshal("drill with /var/lib/etcd/x/etcdadm-drill-1/snapshot.db: damaged: a block is longer than it says\nunexpected EOF\x1b[2J")
	if err != nil {
		t.Fatal(err)
	}
	inStore(t, dir, fixtureBackup, backup.FileManifest, `{"format":1,"verifications":[{"at":"2026-11-21T02:00:03Z","depth":"drilled","ok":false,"problem":`+string(problem)+`}]}`)
	clean := etcdadm(t, "backup", "list", "--store", url).must(t)
	want := fixtureBackup + " is BAD: the last look at it, on 2026-11-21T02:00:03Z, found: drill with snapshot.db: damaged: a block is longer than it says; unexpected EOF [2J\n"
	if row := rowOf(t, clean, fixtureBackup); row[len(row)-1] != "BAD" || !strings.HasSuffix(clean, want) {
		t.Errorf("got\n%s, want at its end\n%s", clean, want)
	}
	if lines := strings.Count(clean, "\n"); lines != 1+5+1 {
		t.Errorf("a heading, five backups and a problem take %d lines:\n%s", lines, clean)
	}
}

// What the list calls BAD is restored from only by who accepts that in so many
// words; a ctl, which has none for it, warns and goes on.
func TestRestoreOfDamagedMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		file, content, words string
		version              bool // it is still known
	}{
		"manifest": {backup.FileManifest, `{"format":`, "unexpected EOF", true},
		"meta":     {backup.FileMeta, `{"etcdVersion":`, "unexpected EOF", false},
		"verdict":  {backup.FileManifest, `{"format":1,"verifications":[{"at":"2026-11-21T02:00:03Z","depth":"content","ok":false,"problem":"it was cut"}]}`, "it was cut", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, url := aStore(t)
			inStore(t, dir, fixtureBackup, c.file, c.content)
			restore := []string{"restore", fixtureBackup, "--store", url}
			queued := func() int {
				return strings.Count(ctlOut(t, "--backup-store="+url, "list-commands"), fixtureBackup)
			}
			for _, more := range [][]string{nil, {"--yes"}, {"--accept-damage"}} {
				s := etcdadm(t, append(restore, more...)...)
				if s.code != ExitUnsafe || queued() != 0 {
					t.Errorf("%q: %+v", more, s)
				}
				if len(more) == 0 || more[0] == "--yes" {
					if !strings.Contains(s.errs, "is BAD") || !strings.Contains(s.errs, c.words) || !strings.Contains(s.errs, "--accept-damage") {
						t.Errorf("%q does not say what is wrong, and the way on: %s", more, s.errs)
					}
				}
			}
			s := etcdadm(t, append(restore, "--yes", "--accept-damage", "--to-version", "3.5.35", "--no-backup", "--lost", "c")...)
			if s.must(t); queued() != 1 || !strings.Contains(s.errs, "warning: backup "+fixtureBackup+" is BAD") {
				t.Errorf("%d queued: %+v", queued(), s)
			}
			if all := ctlOut(t, "--backup-store="+url, "list-commands", "--all"); !strings.Contains(all, "\trestore-backup "+fixtureBackup+" --no-backup --to-version 3.5.35 --lost c\n") {
				t.Errorf("list-commands: %q", all)
			}
			code, out, errs := runCtl(t, "--backup-store="+url, "restore-backup", fixtureBackup)
			switch {
			case c.version && (code != ExitOK || queued() != 2 || !strings.Contains(errs, "warning: backup "+fixtureBackup+" is BAD") || !strings.Contains(errs, c.words)):
				t.Errorf("%d %s %s", code, out, errs)
			case !c.version && (code != ExitUnsafe || queued() != 1 || !strings.Contains(errs, "--accept-damage")): // its command cannot say that it is accepted
				t.Errorf("%d %s %s", code, out, errs)
			}
			file := filepath.Join(t.TempDir(), "s.db")
			got := etcdadm(t, "backup", "download", fixtureBackup, file, "--store", url).must(t)
			if c.version != strings.Contains(got, "a snapshot of etcd 3.5.35\n") || strings.Contains(got, "etcd \n") || !strings.Contains(got, c.words) {
				t.Errorf("download says %q", got)
			}
		})
	}
}

// Without a snapshot there is nothing to accept.
func TestRestoreWithoutSnapshot(t *testing.T) {
	dir, url := aStore(t)
	if err := os.Remove(filepath.Join(dir, fixtureBackup, "etcd.backup.gz")); err != nil {
		t.Fatal(err)
	}
	inStore(t, dir, fixtureBackup, backup.FileManifest, `{"format":1,"file":"etcd.backup.gz","etcdVersion":"3.5.35"}`) // it does not make one
	if s := etcdadm(t, "restore", fixtureBackup, "--store", url, "--yes", "--accept-damage"); s.code != ExitUnsafe || !strings.Contains(s.errs, "no snapshot in its folder") {
		t.Errorf("%+v", s)
	}
	if code, _, errs := runCtl(t, "--backup-store="+url, "restore-backup", fixtureBackup); code != ExitUnsafe || !strings.Contains(errs, "no snapshot in its folder") {
		t.Errorf("%d %s", code, errs)
	}
}

// A folder without the file that is written last is told apart from a name that nobody
// wrote, with what to do about it.
func TestABackupWithoutItsMetaIsSaidToBeIncomplete(t *testing.T) {
	dir, _ := predecessorStore(t)
	url := "file://" + dir
	if err := os.Remove(filepath.Join(dir, fixtureOther, backup.FileMeta)); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"backup", "show", fixtureOther}, {"backup", "verify", fixtureOther}, {"backup", "pin", fixtureOther, "audit"},
		{"backup", "download", fixtureOther, filepath.Join(t.TempDir(), "out")}, {"restore", fixtureOther, "--yes"},
	} {
		r := etcdadm(t, append(words, "--store", url)...)
		if r.code != ExitError || !strings.Contains(r.errs, "it is incomplete: its folder holds etcd.backup.gz, last written at ") || !strings.Contains(r.errs, "hint: if it is being uploaded, ask again") {
			t.Errorf("%q: %+v", words, r)
		}
	}
	missing := etcdadm(t, "backup", "show", "2026-01-01T00:00:00Z-000009", "--store", url)
	if missing.code != ExitError || strings.Contains(missing.errs, "incomplete") || !strings.Contains(missing.errs, "hint: run etcdadm backup list") {
		t.Errorf("of one that is not there: %+v", missing)
	}
}

// A backup of another cluster can be restored, and is not taken for one of this cluster's.
func TestRestoreOfAnotherClustersBackupIsToldAsThat(t *testing.T) {
	dir, url := aStore(t)
	record := func(content string) { inStore(t, dir, "control", "etcdadm-record.json", content) }
	dry := func() said { return etcdadm(t, "restore", fixtureBackup, "--store", url, "--dry-run") }
	inStore(t, dir, fixtureBackup, backup.FileManifest, `{"format":1,"etcdVersion":"3.5.35","cluster":"blue","clusterID":"ab"}`)
	for content, want := range map[string]bool{
		`{"revision":9,"clusters":[{"cluster":"cd","term":2,"index":7}]}`:                                     true,
		`{"revision":9,"clusters":[{"cluster":"ab","term":2,"index":7},{"cluster":"cd","term":2,"index":7}]}`: false,
		`{"revision":0}`: false, // nothing is known
	} {
		record(content)
		if s := dry(); s.code != ExitOK || strings.Contains(s.errs, `is of cluster ab, named "blue"`) != want {
			t.Errorf("with the record %s: %+v", content, s)
		}
	}
}

// The spec may ask for a release that does not read the backup.
func TestRestoreSaysWithWhichLineItBegins(t *testing.T) {
	dir, url := aStore(t)
	for version, want := range map[string]bool{"3.4.25": true, "3.5.35": false, "3.6.16": false} {
		inStore(t, dir, "control", "etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"`+version+`"}`)
		s := etcdadm(t, "restore", fixtureBackup, "--store", url, "--dry-run")
		if s.code != ExitOK || strings.Contains(s.errs, "etcd "+version+", which the spec asks for, cannot read this backup of etcd") != want {
			t.Errorf("where %s is wanted: %+v", version, s)
		}
	}
}

// A store whose directory is not there may be a share that is not mounted: a copy there
// would be on this host's own disk.
func TestBackupCopyMakesNoStoreUnasked(t *testing.T) {
	_, url := aStore(t)
	to := filepath.Join(t.TempDir(), "share")
	code, out, errs := runEtcdadm("backup", "copy", fixtureBackup, "file://"+to, "--store", url)
	if _, err := os.Stat(to); code != ExitError || !os.IsNotExist(err) || strings.Contains(out, "copied") || !strings.Contains(errs, "mount it, or correct the path; for a new store --create-store makes the directory") {
		t.Errorf("%d %v\n%s%s", code, err, out, errs)
	}
	_, _, errs = runEtcdadm("backup", "copy", fixtureBackup, "file://"+to, "--store", url, "--create-store")
	if _, err := os.Stat(to); err != nil {
		t.Errorf("with --create-store: %v\n%s", err, errs)
	}
}
