package backups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/teststore"
)

// The store's credentials are rotated: the environment file is replaced, and backups go on
// with neither daemon nor etcd started anew. What cannot be taken of a file leaves those
// from before in use, and is told once in the log, and in status for as long as it lasts.
func TestCredentialsAreRotated(t *testing.T) {
	rig.TakesLong(t, "50 s")
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	file := filepath.Join(t.TempDir(), "store.env")
	put := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	const key, secret = "rotated-access", "rotated-word-of-the-store"
	old := []string{"S3_ACCESS_KEY_ID=" + teststore.AccessKey, "S3_SECRET_ACCESS_KEY=" + teststore.SecretKey}
	fresh := []string{"S3_ACCESS_KEY_ID=" + key, "S3_SECRET_ACCESS_KEY=" + secret}
	put(old...)
	c := rig.NewCluster(t, rig.Options{
		Hosts: 1, Store: rig.ObjectStore(t, server, teststore.Versitygw, ""),
		Env:   []string{"S3_ACCESS_KEY_ID=", "S3_SECRET_ACCESS_KEY="}, // what the daemon has, it has of the file
		Flags: []string{"--env-file=" + file, "--backup-interval=5s", "--on-sigterm=leave"},
	})
	h := c.Host(1)
	shell := func(lines []string) { c.Options.Env = lines }
	daemonHas := c.Options.Env
	shell(old)
	c.Configure(1)
	shell(daemonHas)
	c.Start(1)
	shell(old)
	c.Voters(rig.Soon, 1)
	name := c.NewerBackup("")
	daemon, etcd := h.Cmd.Process.Pid, h.EtcdPID()

	put(old[0], "S3_SECRET_ACCESS_KEY=rotat", "ed-word/of+the=store") // a value that was broken in two
	c.Blocked(h, "cannot be read", "store.env:3: ")
	name = c.NewerBackup(name)
	put(fresh[0]) // half of it
	c.Blocked(h, "S3_SECRET_ACCESS_KEY", "only one is set")
	name = c.NewerBackup(name)
	put(fresh...) // before the server knows them
	c.Blocked(h, "S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY", "from before stay in use")
	name = c.NewerBackup(name)

	if err := server.Rotate(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	shell(fresh)
	h.Said(rig.Soon, "the backup store is used with new credentials")
	name = c.NewerBackup(name)
	name = c.NewerBackup(name) // a second one is of the store alone, and of no connection that was open
	if h.Cmd.Process.Pid != daemon || h.EtcdPID() != etcd || !h.Running() {
		t.Errorf("daemon %d and etcd %d were %d and %d", h.Cmd.Process.Pid, h.EtcdPID(), daemon, etcd)
	}

	put(append(fresh, "S3_REGION=elsewhere", "ETCD_SNAPSHOT_COUNT=7777")...)
	c.Blocked(h, string(h.ID()), "ETCD_SNAPSHOT_COUNT, S3_REGION", "SIGTERM leaves etcd running")
	c.NewerBackup(name)
	status := c.Etcdadm("status", "--data-dir", h.Dir)
	if !strings.Contains(status.Stdout, "! env-file-not-applied") {
		t.Errorf("%s", status)
	}
	log, err := os.ReadFile(h.Log)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{secret, key, teststore.SecretKey, "ed-word", "elsewhere", "7777"} {
		for where, said := range map[string]string{"status": status.String(), "the log": string(log)} {
			if strings.Contains(said, word) {
				t.Errorf("%s has %q", where, word)
			}
		}
	}
	told := 0
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "the environment file is not in force") && strings.Contains(line, "cannot be read, and what was in it before") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the log tells %d times that the file cannot be read, want once", told)
	}
	put(fresh...)
	h.Said(rig.Soon, "the environment file is in force")
}
