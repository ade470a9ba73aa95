package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/testetcd"
	"filippo.io/age"
)

// eventually waits for what a process beside us does.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	ctx := within(t)
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A coprocess beside each member: one of them acts, and another one when raft's
// leadership moves. They end on their context's end, and leave nothing half done.
func TestBackupCoprocesses(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V37, Members: 3, TLS: true})
	client := c.Client(t)
	put(t, client, "k", "v")
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(identity, []byte(key.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	url := "file://" + dir
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 3)
	for i, m := range c.Members {
		args := []string{
			"--cluster-name=c", "--backup-store=" + url, "--client-url=" + m.ClientURL, "--interval=2s", "--data-dir=/nowhere",
			"--client-ca-file=" + c.Certs().CA, "--client-cert-file", c.Certs().Cert, "-client-key-file=" + c.Certs().Key,
			"--backup-compression=zstd", "--backup-recipient=" + key.Recipient().String(), "--v=2",
		}
		go func() {
			var out, errs bytes.Buffer
			code := BackupMain(ctx, args, &out, &errs)
			ended <- fmt.Sprintf("%d: exit code %d\n%s%s", i, code, out.String(), errs.String())
		}()
	}
	list := func() ([]backupstore.Backup, error) {
		store, err := file.Open(t.Context(), dir, file.Options{})
		if err != nil {
			return nil, err
		}
		catalogue := backupstore.New(store)
		entries, err := catalogue.List(t.Context())
		if err != nil {
			return nil, err
		}
		return catalogue.Describe(t.Context(), entries)
	}
	var first []backupstore.Backup
	eventually(t, "two backups", func() error {
		if first, err = list(); err == nil && len(first) < 2 {
			err = fmt.Errorf("there are %d", len(first))
		}
		return err
	})
	st, err := client.Status(within(t), c.Members[0].ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range first {
		if uint64(b.Manifest.MemberID) != st.Leader || b.Manifest.Cluster != "c" || b.Manifest.Reason != backup.ReasonPeriodic || !b.Encoding.Encrypted || b.Encoding.Compression != backup.Zstd {
			t.Errorf("%+v by a member that is not raft's leader %x, or in another form", b.Manifest, st.Leader)
		}
	}
	if gap := first[0].Name.Time().Sub(first[1].Name.Time()); gap < time.Second {
		t.Errorf("two backups within %s: two of them act", gap)
	}
	leader := 0
	for i, m := range c.Members {
		if s, err := client.Status(within(t), m.ClientURL); err == nil && s.Header.MemberId == st.Leader {
			leader = i
		}
	}
	if err := c.Kill(within(t), leader, 9); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a backup by the next leader", func() error {
		all, err := list()
		if err == nil && (len(all) == 0 || uint64(all[0].Manifest.MemberID) == st.Leader) {
			err = fmt.Errorf("the newest of %d is by the dead leader", len(all))
		}
		return err
	})
	name := first[0].Name.String()
	b := etcdadm(t, "backup", "download", name, filepath.Join(t.TempDir(), "s.db"), "--store", url)
	if b.code != ExitError || !strings.Contains(b.errs, "--identity") {
		t.Errorf("an encrypted one without its key: %+v", b)
	}
	var out, errs bytes.Buffer
	if code := DumpMain(t.Context(), []string{"--backup-store", url, "--identity", identity, name}, &out, &errs); code != ExitOK || !strings.HasPrefix(out.String(), `{"key":"k","value":"v"`) {
		t.Errorf("dump: %d %s%s", code, out.String(), errs.String())
	}
	out.Reset()
	self := func() (string, []string) { return "/nowhere", nil }
	if code := BackupCtlMain(t.Context(), []string{"--backup-store", url}, Program("0.0.0", self, self), &out, &errs); code != ExitOK || !strings.Contains(out.String(), name+"\n") {
		t.Errorf("list: %d %s%s", code, out.String(), errs.String())
	}
	out.Reset()
	if code := BackupCtlMain(t.Context(), []string{"--backup-store", url, "verify", name, "--identity=" + identity}, Program("0.0.0", self, self), &out, &errs); code != ExitOK || !strings.Contains(out.String(), "good (content)") {
		t.Errorf("verify: %d %s%s", code, out.String(), errs.String())
	}
	cancel()
	for range c.Members {
		select {
		case s := <-ended:
			if !strings.Contains(s, "exit code 0") || strings.Contains(s, key.String()) {
				t.Error(s)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a coprocess does not end")
		}
	}
}

func TestMistakesOfCoprocesses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "--cluster-name",
		"--cluster-name=c":                "--backup-store",
		"--cluster-name=c --interval=1ms": "--backup-store",
		"--cluster-name=c --backup-store=file:///s --interval=1ms":              "too short",
		"--cluster-name=c --backup-store=file:///s --backup-compression=lz4":    "zstd",
		"--cluster-name=c --backup-store=file:///s --backup-recipient=AGE-SECR": "age1",
		"word": "word",
	} {
		var out, errs bytes.Buffer
		if code := BackupMain(t.Context(), strings.Fields(args), &out, &errs); code != ExitUsage || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "AGE-SECR") {
			t.Errorf("%q: %d %s", args, code, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := BackupMain(t.Context(), []string{"--help"}, &out, &errs); code != ExitOK || !strings.Contains(out.String(), "-client-url") {
		t.Errorf("%d %s", code, out.String())
	}
	if s := etcdadm(t, "backup", "run", "--cluster-name=c"); s.code != ExitUsage || !strings.Contains(s.errs, "--backup-store") {
		t.Errorf("%+v", s)
	}
	// One that nobody answers to, once.
	if s := etcdadm(t, "backup", "run", "--once", "--cluster-name=c", "--backup-store=file://"+filepath.Join(t.TempDir(), "s"), "--client-url=http://127.0.0.1:1"); s.code != ExitError {
		t.Errorf("%+v", s)
	}
}
