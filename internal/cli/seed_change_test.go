package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
)

// A change of the spec of a running cluster says what it does and what takes it back,
// and asks; etcd-manager-ctl says the same and asks nothing, and scripts read what they did.
func TestSeedOfARunningClusterAsks(t *testing.T) {
	url := "file://" + filepath.Join(t.TempDir(), "s")
	seed := func(args ...string) (code int, out, errs string) {
		return runEtcdadm(append([]string{"seed", url}, args...)...)
	}
	if code, _, errs := seed("--version=3.6.16", "--nodes=3", "--create-store"); code != ExitOK || strings.Contains(errs, "→") {
		t.Fatalf("before there is a cluster: %d %q", code, errs)
	}
	store, err := open.Open(t.Context(), url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder := control.New(store, "test")
	if _, err := folder.CreateIntent(t.Context(), &cluster.Intent{Name: "test", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 99,
		Voters: []cluster.Voter{{Host: "host-1", Member: 1}, {Host: "host-2", Member: 2}, {Host: "host-3", Member: 3}}}); err != nil {
		t.Fatal(err)
	}
	if err := folder.WriteStatus(t.Context(), control.Status{Cluster: "test", Members: []control.MemberStatus{
		{Member: 1, Host: "host-1", Up: true}, {Member: 2, Host: "host-2", Up: true}, {Member: 3, Host: "host-3", Up: true, Leads: true}, {Member: 4, Host: "host-4", Learner: true}}}); err != nil {
		t.Fatal(err)
	}
	const shrinks = "members: 3 → 1: removes host-1, host-2; survives 0 failures (now 1)"
	back := "to go back: etcdadm seed " + url + " --version 3.6.16 --nodes 3"
	for _, c := range []struct {
		line string
		code int
		want []string
		asks bool
	}{
		{"--nodes=1 --dry-run", ExitOK, []string{shrinks, back}, false},
		{"--nodes=1", ExitUnsafe, []string{shrinks, back, "not confirmed"}, true},
		{"--version=3.7.3", ExitUnsafe, []string{"etcd: 3.6.16 → 3.7.3", back}, true},
		{"--nodes=3", ExitOK, nil, false}, // nothing changes
		{"--nodes=5 --yes", ExitOK, []string{"members: 3 → 5: adds 2 members; survives 2 failures (now 1)", "the spec until now: 3 members of etcd 3.6.16; "}, false},
		{"--nodes=5 --hosts=host-1,host-2,host-4", ExitUsage, []string{"5 members on 3 named hosts"}, false},
		{"--hosts=any,host-1", ExitUsage, []string{"--hosts names hosts, or any"}, false},
		{"--nodes=3 --hosts=host-1,host-2,host-4 --yes", ExitOK, []string{"hosts: any → host-1,host-2,host-4: voters are moved away, one at a time: host-3", " --nodes 5 --hosts any"}, false},
		{"--nodes=5 --dry-run", ExitUsage, []string{"5 members on 3 named hosts"}, false},
		{"--version=3.7.3 --dry-run", ExitOK, []string{"etcd: 3.6.16 → 3.7.3"}, false},
		{"--nodes=5 --hosts=any --yes", ExitOK, []string{"hosts: host-1,host-2,host-4 → any", " --nodes 3 --hosts host-1,host-2,host-4"}, false},
		{"--nodes=3 --yes", ExitOK, []string{"members: 5 → 3; survives 1 failure (now 2)"}, false}, // the two had not come
	} {
		code, _, errs := seed(strings.Fields(c.line)...)
		if code != c.code || strings.Contains(errs, "[y/N]") != c.asks || len(c.want) == 0 && errs != "" {
			t.Errorf("%s: %d, want %d, asks %t\n%s", c.line, code, c.code, c.asks, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s does not say %q:\n%s", c.line, want, errs)
			}
		}
	}
	read, err := folder.ReadSpec(t.Context())
	if err != nil || read.Spec.MemberCount != 3 || read.Spec.EtcdVersion.String() != "3.6.16" {
		t.Errorf("the spec is %+v, %v", read.Spec, err)
	}
	var out, errs bytes.Buffer
	code := CtlMain(context.Background(), []string{"--backup-store=" + url, "--member-count=1", "configure-cluster"}, &out, &errs)
	if code != ExitOK || strings.Contains(out.String(), "→") || !strings.Contains(errs.String(), shrinks) || !strings.Contains(errs.String(), "--member-count=3 --etcd-version=3.6.16 configure-cluster") {
		t.Errorf("etcd-manager-ctl: %d\n%s\n%s", code, out.String(), errs.String())
	}
}

// What is on hold counts the voters that there are: the spec's own count is not in force.
func TestSeedThatLiftsAHoldAsks(t *testing.T) {
	r := running{spec: cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}, Hold: true}, count: 2}
	var out strings.Builder
	if !r.describe(&out, cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}}, "undo") || !strings.Contains(out.String(), "members: 2 → 3: adds 1 member; survives 1 failure (now 0)") || !strings.Contains(out.String(), "on hold; to go back: undo (this also lifts the hold that was on it)\n") {
		t.Error(out.String())
	}
}

// answers is a person who is asked, and says yes after something else was done.
type answers struct {
	before func()
	answer strings.Reader
}

func (a *answers) Read(p []byte) (int, error) {
	if a.before != nil {
		a.before()
		a.before = nil
		a.answer.Reset("y\n")
	}
	return a.answer.Read(p)
}

// What somebody else decides while the question stands is not undone, and only what was
// said is written.
func TestSeedWritesOnlyWhatWasSaid(t *testing.T) {
	v := cluster.MustVersion
	for name, c := range map[string]struct {
		line  string
		spec  cluster.Spec
		while func(ctx context.Context, f *control.Folder) error
		code  int
		want  cluster.Spec
	}{
		"an upgrade meanwhile": {"--nodes=5", cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16")}, func(ctx context.Context, f *control.Folder) error {
			_, _, err := f.AmendSpec(ctx, control.Amend{EtcdVersion: v("3.7.3")})
			return err
		}, ExitUnsafe, cluster.Spec{MemberCount: 3, EtcdVersion: v("3.7.3")}},
		"a hold meanwhile":   {"--nodes=5", cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16")}, func(ctx context.Context, f *control.Folder) error { return f.Settings().Hold(ctx, true) }, ExitUnsafe, cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16"), Hold: true}},
		"nothing meanwhile":  {"--nodes=5", cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16"), Hold: true}, nil, ExitOK, cluster.Spec{MemberCount: 5, EtcdVersion: v("3.6.16")}},
		"a version on hold":  {"--version=3.7.3", cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16"), Hold: true}, nil, ExitOK, cluster.Spec{MemberCount: 3, EtcdVersion: v("3.7.3"), Hold: true}},
		"other settings too": {"--nodes=1", cluster.Spec{MemberCount: 3, EtcdVersion: v("3.6.16"), Options: map[string]string{"max-txn-ops": "256"}}, nil, ExitOK, cluster.Spec{MemberCount: 1, EtcdVersion: v("3.6.16"), Options: map[string]string{"max-txn-ops": "256"}}},
	} {
		t.Run(name, func(t *testing.T) {
			url, folder := runningStore(t)
			if err := folder.WriteSpec(t.Context(), c.spec); err != nil {
				t.Fatal(err)
			}
			cmd := seedCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			var out, errs bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			cmd.SetIn(&answers{before: func() {
				if c.while == nil {
					return
				}
				if err := c.while(t.Context(), folder); err != nil {
					t.Error(err)
				}
			}})
			cmd.SetArgs(append([]string{url}, strings.Fields(c.line)...))
			code := Report(&errs, "etcdadm", cmd.ExecuteContext(t.Context()))
			if code != c.code || !strings.Contains(errs.String(), "[y/N]") || c.code == ExitUnsafe && !strings.Contains(errs.String(), "the spec changed while you were asked; nothing was written") {
				t.Errorf("%d, want %d\n%s%s", code, c.code, out.String(), errs.String())
			}
			if read, err := folder.ReadSpec(t.Context()); err != nil || !read.Spec.Equal(c.want) {
				t.Errorf("the spec is %+v, %v, want %+v", read.Spec, err, c.want)
			}
		})
	}
}

// runningStore is the store of a running cluster of three.
func runningStore(t *testing.T) (url string, folder *control.Folder) {
	t.Helper()
	url = "file://" + t.TempDir()
	store, err := open.Open(t.Context(), url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder = control.New(store, "test")
	if _, err := folder.CreateIntent(t.Context(), &cluster.Intent{Name: "test", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 99,
		Voters: []cluster.Voter{{Host: "host-1", Member: 1}, {Host: "host-2", Member: 2}, {Host: "host-3", Member: 3}}}); err != nil {
		t.Fatal(err)
	}
	return url, folder
}

// A running cluster whose spec is refused is changed no more silently than another: what
// it has is told by its record.
func TestSeedOverARefusedSpecAsks(t *testing.T) {
	for name, c := range map[string]struct {
		spec     string
		noRecord bool
		want     string
	}{
		"asks for 4":               {`{"memberCount": 4, "etcdVersion": "3.6.16"}`, false, "members: 3 → 1: removes 2 members; survives 0 failures (now 1)"},
		"malformed":                {`{"memberCount": `, false, "members: 3 → 1: removes 2 members; survives 0 failures (now 1)"},
		"and the record is spoilt": {`{"memberCount": 4, "etcdVersion": "3.6.16"}`, true, "how many members there are is not known; from now on 1"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := runningStore(t)
			dir := filepath.Join(strings.TrimPrefix(url, "file://"), "control")
			spec := filepath.Join(dir, "etcd-cluster-spec")
			if err := os.WriteFile(spec, []byte(c.spec), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.noRecord {
				if err := os.WriteFile(filepath.Join(dir, "etcd-cluster-created"), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said := func(errs string) {
				t.Helper()
				if !strings.Contains(errs, c.want) || !strings.Contains(errs, "the spec until now could not be followed: ") || strings.Contains(errs, "to go back") {
					t.Error(errs)
				}
			}
			code, _, errs := runEtcdadm("seed", url, "--version=3.6.16", "--nodes=1")
			said(errs)
			if is, err := os.ReadFile(spec); err != nil || code != ExitUnsafe || !strings.Contains(errs, "[y/N]") || string(is) != c.spec {
				t.Errorf("%d %v, the spec is %s\n%s", code, err, is, errs)
			}
			var out, told bytes.Buffer
			code = CtlMain(t.Context(), []string{"--backup-store=" + url, "--member-count=1", "--etcd-version=3.6.16", "configure-cluster"}, &out, &told)
			said(told.String())
			if is, err := os.ReadFile(spec); err != nil || code != ExitOK || strings.Contains(told.String(), "[y/N]") || !strings.Contains(string(is), `"memberCount": 1`) {
				t.Errorf("etcd-manager-ctl: %d %v, the spec is %s\n%s", code, err, is, told.String())
			}
		})
	}
}

// A running cluster whose spec is gone is changed no more silently than another.
func TestSeedOverAMissingSpecAsks(t *testing.T) {
	url, folder := runningStore(t)
	const wrongStore = "the store has no spec of this cluster until now: make sure that it is the right store"
	spec := filepath.Join(strings.TrimPrefix(url, "file://"), "control", "etcd-cluster-spec")
	code, _, errs := runEtcdadm("seed", url, "--version=3.7.3", "--nodes=1")
	if _, err := os.Stat(spec); err == nil || code != ExitUnsafe || !strings.Contains(errs, "[y/N]") || !strings.Contains(errs, wrongStore) ||
		!strings.Contains(errs, "members: 3 → 1: removes 2 members; survives 0 failures (now 1)\netcd: 3.7.3: every member that runs another version is restarted with it\n") {
		t.Errorf("%d %v\n%s", code, err, errs)
	}
	v := cluster.MustVersion("3.6.16")
	if err := folder.WriteStatus(t.Context(), control.Status{Cluster: "test", Members: []control.MemberStatus{{Member: 1, Host: "host-1", Up: true, Version: v}, {Member: 2, Host: "host-2", Version: v}}}); err != nil {
		t.Fatal(err)
	}
	if code, _, errs = runEtcdadm("seed", url, "--version=3.7.3", "--nodes=3", "--dry-run"); code != ExitOK || !strings.Contains(errs, "members: 3 → 3; survives") || !strings.Contains(errs, "etcd: 3.6.16 → 3.7.3: every member") {
		t.Errorf("%d\n%s", code, errs)
	}
	if code, _, errs = runEtcdadm("seed", url, "--version=3.6.16", "--nodes=3"); code != ExitUnsafe || !strings.Contains(errs, "etcd: 3.6.16, as the members run") {
		t.Errorf("%d\n%s", code, errs)
	}
	var out, told bytes.Buffer
	if code := CtlMain(t.Context(), []string{"--backup-store=" + url, "--member-count=1", "--etcd-version=3.6.16", "configure-cluster"}, &out, &told); code != ExitOK || !strings.Contains(told.String(), "members: 3 → 1: removes 2 members") || !strings.Contains(told.String(), wrongStore) {
		t.Errorf("etcd-manager-ctl: %d\n%s", code, told.String())
	}
	if err := os.Remove(spec); err != nil {
		t.Fatal(err)
	}
	if code, _, errs = runEtcdadm("seed", url, "--version=3.6.16", "--nodes=3", "--yes"); code != ExitOK || strings.Contains(errs, "[y/N]") || !strings.Contains(errs, wrongStore) {
		t.Errorf("%d\n%s", code, errs)
	}
}

// A change that somebody else was before is read, and shown, again, three times at most.
func TestAmendingShowsAgain(t *testing.T) {
	for fails, want := range map[int]int{0: ExitOK, 2: ExitOK, 3: ExitUnsafe} {
		var told strings.Builder
		tries := 0
		err := amending(&told, func() error {
			if tries++; tries <= fails {
				return changedMeanwhile(fmt.Errorf("write the spec: %w", control.ErrConflict))
			}
			return nil
		})
		if code := Report(&told, "etcdadm", err); code != want || tries != min(fails+1, amendTries) || strings.Count(told.String(), "nothing was written; as it is now:") != min(fails, amendTries-1) {
			t.Errorf("%d: %d after %d tries\n%s", fails, code, tries, told.String())
		}
	}
}
