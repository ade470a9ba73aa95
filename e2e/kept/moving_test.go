package kept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/register"
	"etcdadm.io/internal/teststore"
)

// threeThatKeep are three hosts that keep the record, and an empty store.
func threeThatKeep(t *testing.T) (c *rig.Cluster, store string) {
	t.Helper()
	c = rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true, Flags: []string{"--on-sigterm=leave"}})
	c.Host(1).FoundRecord(3)
	c.Host(2).Named()
	c.Host(3).Named()
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	return c, "file://" + t.TempDir()
}

// inStore waits until the leading daemon reads the record in a store, and all these hosts see it there.
func inStore(t *testing.T, c *rig.Cluster, store string, hosts ...int) {
	t.Helper()
	rig.Eventually(t, time.Minute, fmt.Sprintf("the record is in the store for hosts %v", hosts), func(context.Context) error {
		for _, n := range hosts {
			notes, err := moving.ReadNotes(c.Host(n).Dir)
			if err != nil || notes.Place == nil || !notes.Place.InForce {
				return fmt.Errorf("host %d is not there (%w)", n, err)
			}
			r := c.Etcdadm("store", "status", "-o", "json", "--data-dir", c.Host(n).Dir)
			var w console.Whereabouts
			if err := json.Unmarshal([]byte(r.Stdout), &w); err != nil {
				return fmt.Errorf("%w: %s", err, r)
			}
			if w.In != console.KeptInStore || w.Store != daemon.ShownURL(store) || !w.Read {
				return fmt.Errorf("%s", r)
			}
		}
		return nil
	})
}

// The record goes from the hosts to a store under writes, none of which fails. Hosts that were started for the hosts' record are at the
// store after a restart too; backups of both homes are listed, and a person's spec goes by the store.
func TestStoreIsSet(t *testing.T) {
	t.Parallel()
	c, store := threeThatKeep(t)
	data := func(n int) []string { return []string{"--data-dir", c.Host(n).Dir} }
	if r := c.Etcdadm(append([]string{"backup", "create", "--wait", "60s"}, data(2)...)...); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	w := c.Write()
	w.WaitFor(20)
	if r := c.Etcdadm(append([]string{"store", "set", store, "--dry-run"}, data(3)...)...); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "host-2") {
		t.Fatalf("%s", r)
	}
	if r := c.Etcdadm(append([]string{"store", "set", "--none"}, data(3)...)...); r.Code != cli.ExitOK {
		t.Errorf("where it is already: %s", r)
	}
	pids := []int{c.Host(1).EtcdPID(), c.Host(2).EtcdPID(), c.Host(3).EtcdPID()}
	if r := c.Etcdadm(append([]string{"store", "set", store, "--yes"}, data(3)...)...); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "is kept in the shared store") {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	inStore(t, c, store, 1, 2, 3)
	w.WaitFor(20)
	for i, pid := range pids {
		if now := c.Host(i + 1).EtcdPID(); now != pid {
			t.Errorf("the member of host %d was restarted", i+1)
		}
	}
	if n := w.Failed(); n > 0 {
		t.Errorf("%d writes failed", n)
	}
	for n := 1; n <= 3; n++ {
		info, err := os.Stat(filepath.Join(c.Host(n).Dir, "etcdadm", moving.FileName))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
	if r := c.Etcdadm(append([]string{"backup", "create", "--wait", "60s"}, data(2)...)...); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	for _, url := range []string{store, c.Host(1).StoreURL()} {
		if r := c.Etcdadm("backup", "list", "--store", url); r.Code != cli.ExitOK || strings.Count(r.Stdout, "Z-") < 1 {
			t.Errorf("%s", r)
		}
	}
	c.Host(2).Crash()
	c.Start(2)
	c.Host(2).Serves(rig.Soon)
	inStore(t, c, store, 1, 2, 3)
	if r := c.Etcdadm(append([]string{"store", "set", store, "--yes"}, data(2)...)...); r.Code != cli.ExitOK {
		t.Errorf("again: %s", r)
	}
	if r := c.Etcdadm("seed", store, "--member-count", "1", "--yes"); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	client := c.NewClient(1, 2, 3)
	defer client.Close()
	rig.Eventually(t, rig.Soon, "one member", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err == nil && len(list.Members) != 1 {
			err = fmt.Errorf("%d members", len(list.Members))
		}
		return err
	})
	w.End()
}

// Every known host has to be there. One that is killed once it has the offer follows when it is back, and so do two.
func TestHostIsAwayAtTheSeal(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c, store := threeThatKeep(t)
	w := c.Write()
	w.WaitFor(20)
	c.Host(3).Kill()
	c.Leader(rig.Soon, c.Host(1), c.Host(3)) // which may have led
	if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "host-3") {
		t.Errorf("%s", r)
	}
	c.Start(3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	offered := make(chan error, 1)
	go func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if n, err := moving.ReadNotes(c.Host(3).Dir); err == nil && (n.Offer != nil && n.Offer.URL == store || n.Place != nil) {
				c.Host(3).Kill()
				offered <- nil
				return
			}
		}
		offered <- errors.New("host 3 was offered nothing")
	}()
	rig.Eventually(t, time.Minute, "the record is moved", func(context.Context) error {
		r := c.Etcdadm("store", "set", store, "--yes", "--timeout", "20s", "--data-dir", c.Host(1).Dir)
		if r.Code != cli.ExitOK {
			if !c.Host(3).Running() { // it was gone before the seal
				c.Start(3)
			}
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if err := <-offered; err != nil {
		t.Fatal(err)
	}
	if !c.Host(3).Running() {
		c.Start(3)
	}
	inStore(t, c, store, 1, 2, 3)
	w.End()
}

// The daemon that moves is killed at moments all over the move. Run again, the command comes to its end, and all hosts are there.
func TestMoverIsKilled(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "three minutes")
	for i, after := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond, 1200 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			c, store := threeThatKeep(t)
			w := c.Write()
			w.WaitFor(20)
			done := make(chan rig.Result, 1)
			go func() {
				done <- c.Etcdadm("store", "set", store, "--yes", "--timeout", "15s", "--data-dir", c.Host(1).Dir)
			}()
			time.Sleep(after) // where it is by then is the schedule
			victim := 1 + i%3
			for n := 1; n <= 3; n++ {
				if r := c.Etcdadm("status", "-o", "json", "--data-dir", c.Host(n).Dir); strings.Contains(r.Stdout, `"leading": true`) {
					victim = n
				}
			}
			c.Host(victim).Kill()
			<-done
			c.Start(victim)
			rig.Eventually(t, 2*time.Minute, "the record is moved", func(context.Context) error {
				if r := c.Etcdadm("store", "set", store, "--yes", "--timeout", "30s", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK {
					return fmt.Errorf("%s", r)
				}
				return nil
			})
			inStore(t, c, store, 1, 2, 3)
			w.End()
		})
	}
}

// A store that goes away after the seal keeps no member down, and no daemon from its start; when it is back the record is read.
func TestStoreIsSilentAfterTheSeal(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c, store := threeThatKeep(t)
	w := c.Write()
	w.WaitFor(20)
	if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	dir := strings.TrimPrefix(store, "file://")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	inPlace := false
	back := func() {
		if !inPlace {
			inPlace = os.Rename(dir+".away", dir) == nil
		}
	}
	t.Cleanup(back)
	c.Host(2).Crash()
	c.Start(2)
	c.Host(2).Serves(rig.Soon)
	w.WaitFor(20)
	back()
	inStore(t, c, store, 1, 2, 3)
	w.End()
}

// The credentials of the store go to every host with the record, and are used after a restart by daemons that were started with none, or
// with those of another store. They appear nowhere but in that one file.
func TestCredentialsGoWithTheRecord(t *testing.T) {
	server := teststore.Start(t, teststore.Versitygw)
	const key, secret = "moved-access", "moved-word-of-the-store"
	if err := server.Rotate(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	store := rig.ObjectStore(t, server, teststore.Versitygw, "")
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true, Flags: []string{"--on-sigterm=leave"}})
	c.Host(1).FoundRecord(3)
	c.Host(2).Named()
	c.Host(3).Named()
	c.Start(1, 2, 3) // with the keys of another store, as the rig has them
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	set := func(code int, says string) {
		t.Helper()
		if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != code || !strings.Contains(r.Stdout+r.Stderr, says) {
			t.Fatalf("%s", r)
		}
	}
	set(cli.ExitUnsafe, "nothing was changed") // with those keys
	c.Options.Env = []string{"S3_ACCESS_KEY_ID=" + key, "S3_SECRET_ACCESS_KEY=" + secret}
	set(cli.ExitOK, "is kept in the shared store")
	inStore(t, c, store, 1, 2, 3)
	shell := c.Options.Env
	c.Options.Env = nil // the daemon is started as before
	c.Host(2).Crash()
	c.Start(2)
	c.Host(2).Serves(rig.Soon)
	inStore(t, c, store, 1, 2, 3)
	c.Options.Env = shell
	if r := c.Etcdadm("backup", "create", "--wait", "60s", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	hidden := map[string][]byte{"the store": []byte(secret)}
	status := c.Etcdadm("status", "-o", "json", "--data-dir", c.Host(2).Dir)
	c.NoSecretIn("the status", []byte(status.Stdout+status.Stderr), hidden)
	for n := 1; n <= 3; n++ {
		h := c.Host(n)
		c.NoSecretIn(h.Log, rig.FileAt(t, h.Log), hidden)
		files, err := filepath.Glob(filepath.Join(h.Dir, "etcdadm", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && filepath.Base(path) != moving.FileName {
				c.NoSecretIn(path, rig.FileAt(t, path), hidden)
			}
		}
	}
}

// A move stops half way, with the store claimed and offers out, and then a majority is lost. The survivor calls the move off in the store
// before it makes the record again; afterwards the record that it made moves to that very folder.
func TestRecoverBesideAMove(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "two minutes")
	c, store := threeThatKeep(t)
	c.Fill("before/", 50)
	survivor := c.Host(3)
	c.Host(2).Signal(syscall.SIGSTOP)
	if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "host-2") {
		t.Fatalf("%s", r)
	}
	if n, err := moving.ReadNotes(survivor.Dir); err != nil || n.Offer == nil || n.Place != nil {
		t.Fatalf("the survivor has no offer: %v", err)
	}
	c.Host(1).Crash()
	c.Host(2).Crash()
	survivor.Crash()
	c.Start(3)
	lost := []string{"--from", "host-3", "--lost", "host-1", "--lost", "host-2", "--yes"}
	dir := strings.TrimPrefix(store, "file://")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, time.Minute, "a recovery is refused while the store is silent", func(context.Context) error {
		if r := c.Recovers(survivor, lost...); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "bring that store back") {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, time.Minute, "the record is made again", func(context.Context) error {
		if r := c.Recovers(survivor, lost...); r.Code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if marker := string(rig.FileAt(t, filepath.Join(dir, control.KeyIntent))); !strings.Contains(marker, `"void":true`) {
		t.Errorf("the store shows %s", marker)
	}
	c.Start(1, 2)
	c.Voters(2*time.Minute, 1, 2, 3)
	c.KeptBy(time.Minute, 1, 2, 3)
	rig.Eventually(t, time.Minute, "the record is moved", func(context.Context) error {
		if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", survivor.Dir); r.Code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	inStore(t, c, store, 1, 2, 3)
	if n := c.CountKeys("before/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

// A host that is started from an image of before the move hears of the seal, says so, and changes nothing: its member goes on, and the
// others are where the record is.
func TestOldImageAfterAMove(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c, store := threeThatKeep(t)
	h := c.Host(3)
	state := filepath.Join(h.Dir, "etcdadm", keeper.FileName)
	old := rig.FileAt(t, state)
	if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	inStore(t, c, store, 1, 2, 3)
	w := c.Write()
	h.Crash()
	if err := errors.Join(os.WriteFile(state, old, 0o600), os.Remove(filepath.Join(h.Dir, "etcdadm", moving.FileName))); err != nil {
		t.Fatal(err)
	}
	c.Start(3)
	h.Said(rig.Soon, "this host has no part in that")
	h.Serves(rig.Soon)
	w.WaitFor(20)
	inStore(t, c, store, 1, 2)
	w.End()
}

// A whole disk of before the move is put back: the hosts that followed remember it, though they refuse its pings, and its member does not
// start with a log that lacks what it has voted for.
func TestWholeImageAfterAMove(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c, store := threeThatKeep(t)
	h := c.Host(3)
	image := filepath.Join(t.TempDir(), "image")
	h.Crash()
	if out, err := exec.Command("cp", "-a", h.Dir, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Start(3)
	h.Serves(rig.Soon)
	if r := c.Etcdadm("store", "set", store, "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	inStore(t, c, store, 1, 2, 3)
	c.Fill("after/", 50)
	h.Crash()
	if err := errors.Join(os.RemoveAll(h.Dir), os.Rename(image, h.Dir)); err != nil {
		t.Fatal(err)
	}
	comesBackAsANewDisk(t, h)
	inStore(t, c, store, 1, 2)
	if n := c.CountKeys("after/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

// comesBackAsANewDisk starts a host on an image of its disk: it goes on as a new one, and its member is not started before.
func comesBackAsANewDisk(t *testing.T, h *rig.Host) {
	t.Helper()
	mark := h.Mark()
	h.C.Start(h.N)
	h.SaidSince(mark, "it was rolled back")
	h.SaidSince(mark, "the host goes on as a new disk")
	log, err := os.ReadFile(h.Log)
	if err != nil {
		t.Fatal(err)
	}
	if said, _, _ := strings.Cut(string(log[mark:]), "the host goes on as a new disk"); strings.Contains(said, "etcd runs") {
		t.Errorf("its member was started:\n%s", said)
	}
}

// atHosts waits until the hosts keep the record, and all of them are there.
func atHosts(t *testing.T, c *rig.Cluster, hosts ...int) {
	t.Helper()
	rig.Eventually(t, time.Minute, fmt.Sprintf("the hosts %v keep the record", hosts), func(context.Context) error {
		for _, n := range hosts {
			r := c.Etcdadm("store", "status", "-o", "json", "--data-dir", c.Host(n).Dir)
			var w console.Whereabouts
			if err := json.Unmarshal([]byte(r.Stdout), &w); err != nil {
				return fmt.Errorf("%w: %s", err, r)
			}
			if w.In != console.KeptByHosts || !w.Read {
				return fmt.Errorf("%s", r)
			}
		}
		return nil
	})
	c.KeptBy(time.Minute, hosts...)
}

// threeWithAStore are three hosts with a shared store.
func threeWithAStore(t *testing.T) *rig.Cluster {
	t.Helper()
	return rig.Formed(t, 3, rig.Options{TLS: true, Flags: []string{"--on-sigterm=leave"}})
}

// The record of a cluster with a store goes to the hosts under writes, to another folder and back again. Hosts that are started as before are
// where the record is, and what was asked for before goes along.
func TestStoreIsLeft(t *testing.T) {
	t.Parallel()
	c := threeWithAStore(t)
	w := c.Write()
	w.WaitFor(20)
	set := func(n int, words ...string) {
		t.Helper()
		if r := c.Etcdadm(append([]string{"store", "set", "--yes", "--data-dir", c.Host(n).Dir}, words...)...); r.Code != cli.ExitOK {
			t.Fatalf("%s\n%s", r, c.Logs())
		}
	}
	set(2, "--none")
	atHosts(t, c, 1, 2, 3)
	w.WaitFor(20)
	if n := w.Failed(); n > 0 {
		t.Errorf("%d writes failed", n)
	}
	c.Host(1).Crash()
	c.Start(1)
	c.Host(1).Serves(rig.Soon)
	atHosts(t, c, 1, 2, 3)
	if r := c.Etcdadm("seed", c.StoreURL(), "--member-count", "5", "--yes"); r.Code == cli.ExitOK {
		t.Errorf("a spec is written to a store that was left: %s", r)
	}
	if r := c.Etcdadm("backup", "create", "--wait", "60s", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("store", "set", c.StoreURL(), "--yes", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitUnsafe {
		t.Errorf("a folder that was left is taken again: %s", r)
	}
	newcomer := c.AddHost()
	c.Start(newcomer.N)
	newcomer.Said(rig.Soon, "this host has no part in that")
	newcomer.Crash()
	other := "file://" + t.TempDir()
	set(3, other)
	inStore(t, c, other, 1, 2, 3)
	set(1, "--none")
	atHosts(t, c, 1, 2, 3)
	if r := c.Etcdadm("seed", kept.URL(c.Host(2).Dir), "--member-count", "1", "--yes"); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	client := c.NewClient(1, 2, 3)
	defer client.Close()
	rig.Eventually(t, rig.Soon, "one member", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err == nil && len(list.Members) != 1 {
			err = fmt.Errorf("%d members", len(list.Members))
		}
		return err
	})
	w.End()
}

// The daemon that moves the record to the hosts is killed at moments all over the move. What it froze is thawed, or the record is at the
// hosts, and the command that is run again comes to its end.
func TestMoverHomeIsKilled(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "two minutes")
	for _, after := range []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			c := threeWithAStore(t)
			w := c.Write()
			w.WaitFor(20)
			done := make(chan rig.Result, 1)
			go func() {
				done <- c.Etcdadm("store", "set", "--none", "--yes", "--timeout", "10s", "--data-dir", c.Host(1).Dir)
			}()
			time.Sleep(after) // where it is by then is the schedule
			victim := 1
			for n := 1; n <= 3; n++ {
				if r := c.Etcdadm("status", "-o", "json", "--data-dir", c.Host(n).Dir); strings.Contains(r.Stdout, `"leading": true`) {
					victim = n
				}
			}
			c.Host(victim).Kill()
			<-done
			c.Start(victim)
			rig.Eventually(t, 2*time.Minute, "the record is moved", func(context.Context) error {
				if r := c.Etcdadm("store", "set", "--none", "--yes", "--timeout", "30s", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK {
					return fmt.Errorf("%s", r)
				}
				return nil
			})
			atHosts(t, c, 1, 2, 3)
			w.End()
		})
	}
}

// diesAtTheSeal ends hosts at the moment that the store is sealed: as a rule they have the offer then, and have not followed. It tells when
// that is done.
func diesAtTheSeal(c *rig.Cluster, die func(*rig.Host), hosts ...int) <-chan error {
	done := make(chan error, 1)
	go func() {
		marker := filepath.Join(strings.TrimPrefix(c.StoreURL(), "file://"), control.KeyIntent)
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if data, err := os.ReadFile(marker); err != nil || !strings.Contains(string(data), `"moved":true`) {
				continue
			}
			var all sync.WaitGroup
			for _, n := range hosts {
				all.Go(func() { die(c.Host(n)) })
			}
			all.Wait()
			for _, n := range hosts {
				if notes, err := moving.ReadNotes(c.Host(n).Dir); err != nil || notes.Offer == nil {
					c.T.Logf("host %d has followed already (%v)", n, err)
				}
			}
			done <- nil
			return
		}
		done <- errors.New("the store was never sealed")
	}()
	return done
}

// leave has the record moved to the hosts, by whoever leads.
func leave(t *testing.T, c *rig.Cluster, through int) {
	t.Helper()
	rig.Eventually(t, 90*time.Second, "the record is moved", func(context.Context) error {
		if r := c.Etcdadm("store", "set", "--none", "--yes", "--timeout", "20s", "--data-dir", c.Host(through).Dir); r.Code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
}

// A host that was killed once it had the offer follows when it is back, though the store that was left is gone by then.
func TestHostIsAwayWhenTheStoreIsLeft(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c := threeWithAStore(t)
	w := c.Write()
	w.WaitFor(20)
	c.Host(3).Signal(syscall.SIGSTOP)
	c.Leader(rig.Soon, c.Host(1), c.Host(3)) // which may have led
	if r := c.Etcdadm("store", "set", "--none", "--yes", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, string(c.Host(3).ID())) {
		t.Errorf("%s", r)
	}
	c.Host(3).Signal(syscall.SIGCONT)
	died := diesAtTheSeal(c, (*rig.Host).Kill, 3)
	leave(t, c, 1)
	if err := <-died; err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimPrefix(c.StoreURL(), "file://")
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	c.Start(3)
	atHosts(t, c, 1, 2, 3)
	w.End()
}

// A majority is lost before it has followed, and the record is made again at the hosts by the one that has. The two come back at the same
// moment, with offers that are a majority of the record before, and join the cluster that went on.
func TestRecoverWhenTheStoreIsLeft(t *testing.T) { recoverWhenTheStoreIsLeft(t, false) }

// The same, and the store is gone by then: they hear of the new record only.
func TestRecoverWhenTheStoreIsGone(t *testing.T) { recoverWhenTheStoreIsLeft(t, true) }

func recoverWhenTheStoreIsLeft(t *testing.T, gone bool) {
	t.Helper()
	t.Parallel()
	rig.TakesLong(t, "two minutes")
	c := threeWithAStore(t)
	c.Fill("before/", 50)
	survivor := c.Host(1)
	lost := []string{"--from", string(survivor.ID()), "--lost", string(c.Host(2).ID()), "--lost", string(c.Host(3).ID()), "--yes"}
	died := diesAtTheSeal(c, (*rig.Host).Crash, 2, 3)
	rig.Eventually(t, time.Minute, "the store is sealed", func(context.Context) error {
		r := c.Etcdadm("store", "set", "--none", "--yes", "--timeout", "10s", "--data-dir", survivor.Dir)
		if n, err := moving.ReadNotes(survivor.Dir); err != nil || !n.Place.AtHosts() {
			return fmt.Errorf("%w, %s", err, r)
		}
		return nil
	})
	if err := <-died; err != nil {
		t.Fatal(err)
	}
	survivor.Crash()
	c.Start(1)
	rig.Eventually(t, time.Minute, "the record is made again", func(context.Context) error {
		if r := c.Recovers(survivor, lost...); r.Code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	rig.Eventually(t, 2*time.Minute, "host 1 goes on as generation 2", func(context.Context) error {
		if r := c.Etcdadm("status", "--data-dir", survivor.Dir, "-o", "json"); !regexp.MustCompile(`"generation": ?2\b`).MatchString(r.Stdout) {
			return fmt.Errorf("exit code %d: %s", r.Code, r.Stderr)
		}
		return nil
	})
	if dir := strings.TrimPrefix(c.StoreURL(), "file://"); gone {
		if err := os.Rename(dir, dir+".gone"); err != nil {
			t.Fatal(err)
		}
	}
	c.Start(2, 3)
	c.Voters(2*time.Minute, 1, 2, 3)
	atHosts(t, c, 1, 2, 3)
	if n := c.CountKeys("before/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

// A disk of between the offer and the follow is put back: the others remember it, and the host takes another seat than the one that it was
// offered, and took.
func TestImageOfAnOpenOffer(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "two minutes")
	c := threeWithAStore(t)
	h := c.Host(3)
	died := diesAtTheSeal(c, (*rig.Host).Crash, 3)
	leave(t, c, 1)
	if err := <-died; err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "image")
	if out, err := exec.Command("cp", "-a", h.Dir, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Start(3)
	atHosts(t, c, 1, 2, 3)
	h.Said(rig.Soon, "store=hosts:") // it keeps the record by now, and the others have heard of this start
	c.Fill("after/", 50)
	seat := seatOf(t, h)
	h.Crash()
	if err := errors.Join(os.RemoveAll(h.Dir), os.Rename(image, h.Dir)); err != nil {
		t.Fatal(err)
	}
	comesBackAsANewDisk(t, h)
	c.Voters(2*time.Minute, 1, 2, 3)
	atHosts(t, c, 1, 2, 3)
	if now := seatOf(t, h); now == seat {
		t.Errorf("it has the seat %v, which it may have promised by", now)
	}
	if n := c.CountKeys("after/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

// A disk of before the record was moved to the hosts is put back, without the offer, and the store is gone: it knows nothing of the move,
// those at home refuse it, and tell all the same what they remember of it.
func TestImageOfAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	rig.TakesLong(t, "a minute")
	c := threeWithAStore(t)
	h := c.Host(3)
	image := filepath.Join(t.TempDir(), "image")
	h.Crash()
	if out, err := exec.Command("cp", "-a", h.Dir, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Start(3)
	h.Serves(rig.Soon)
	leave(t, c, 1)
	atHosts(t, c, 1, 2, 3)
	c.Fill("after/", 50)
	h.Crash()
	dir := strings.TrimPrefix(c.StoreURL(), "file://")
	if err := errors.Join(os.RemoveAll(h.Dir), os.Rename(image, h.Dir), os.Rename(dir, dir+".gone")); err != nil {
		t.Fatal(err)
	}
	comesBackAsANewDisk(t, h)
	if n := c.CountKeys("after/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

func seatOf(t *testing.T, h *rig.Host) register.Seat {
	t.Helper()
	state, err := keeper.Decode(rig.FileAt(t, filepath.Join(h.Dir, "etcdadm", keeper.FileName)))
	if err != nil {
		t.Fatal(err)
	}
	return state.Seat
}
