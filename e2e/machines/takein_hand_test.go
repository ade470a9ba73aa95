package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/handover"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/token"
)

// byHand is an etcd that somebody started on a machine.
type byHand struct {
	m     *machine
	dir   string
	line  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

// startByHand starts a cluster of the release that the agent has built in, without TLS, a process on each machine.
func startByHand(t *testing.T, all []*machine) (hands []*byHand) {
	t.Helper()
	var initial []string
	for _, m := range all {
		initial = append(initial, fmt.Sprintf("%s=http://%s:2380", m.id, m.address))
	}
	for _, m := range all {
		h := &byHand{m: m, dir: filepath.Join(m.Paths.Root, "var/lib/etcd")}
		client, peers := "http://"+m.address+":2379", "http://"+m.address+":2380"
		h.line = []string{
			testetcd.Binary(t, builtin.Version).Etcd, "--name=" + m.id, "--data-dir=" + h.dir,
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
			"--initial-cluster=" + strings.Join(initial, ","), "--quota-backend-bytes=4294967296", "--snapshot-count=20000",
		}
		h.start(t)
		hands = append(hands, h)
	}
	for _, h := range hands {
		h.healthy(t)
	}
	return hands
}

func (h *byHand) start(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(h.m.Paths.Root, "etcd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(h.line[0], h.line[1:]...)
	cmd.Stderr, cmd.Stdout = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	h.cmd, h.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
}

func (h *byHand) end(s syscall.Signal) {
	_ = h.cmd.Process.Signal(s)
	<-h.ended
}

func (h *byHand) client(t *testing.T) *etcd.Client {
	t.Helper()
	c, err := etcd.New(etcd.Config{Endpoints: []string{"http://" + h.m.address + ":2379"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (h *byHand) healthy(t *testing.T) {
	t.Helper()
	c := h.client(t)
	deadline := time.Now().Add(30 * time.Second)
	for {
		st, err := c.Status(t.Context())
		if err == nil && st.Leader != 0 {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(h.m.Paths.Root, "etcd.log"))
			t.Fatalf("%s: %v\n%s", h.m.id, err, log[max(0, len(log)-4000):])
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// look finds it as init and join do.
func (h *byHand) look(t *testing.T, joins bool) *handover.Etcd {
	t.Helper()
	e, err := handover.Look(t.Context(), handover.Options{
		From: h.dir, DataDir: h.m.Paths.Data(), PKIDir: h.m.Paths.PKI(), PKIGiven: joins, First: !joins, Manifests: filepath.Join(h.m.Paths.Root, "manifests"),
		Has: func(context.Context, string) error { return nil }, Say: h.m.Say,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func refusals(e *handover.Etcd) string {
	var out []string
	for _, c := range e.Checks() {
		if c.Standing == setup.Refused {
			out = append(out, c.Name+": "+c.Found)
		}
	}
	return strings.Join(out, "\n")
}

// An etcd that somebody started by hand, and one of a static pod, without TLS: the same cluster goes on with our agents. While
// another member is down none is ended, and a second machine does not begin a record of its own.
func TestTakeInByHand(t *testing.T) {
	all, _ := newMachines(t, 3)
	hands := startByHand(t, all)
	before, err := hands[0].client(t).View(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}

	hands[2].end(syscall.SIGKILL)
	e := hands[0].look(t, false)
	if said := refusals(e); !strings.Contains(said, "voters: member") || !strings.Contains(said, "is not up") {
		t.Errorf("with a member down: %q", said)
	}
	if err := e.Stop(t.Context()); !errors.Is(err, handover.ErrBusy) {
		t.Errorf("with a member down: %v", err)
	}
	hands[2].start(t)
	hands[2].healthy(t)

	e = hands[0].look(t, false)
	if said := refusals(e); said != "" {
		t.Fatal(said)
	}
	o := setup.Init{Existing: e, Members: 3, Version: version(t), Wait: time.Minute}
	report, err := all[0].CheckInit(t.Context(), o)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Checks, func(c setup.Check) bool {
		return c.Name == "settings" && strings.Contains(c.Found, "snapshot-count=20000")
	}) {
		t.Errorf("what is not carried over is not told: %+v", report.Checks)
	}
	begun, err := all[0].Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("way back: %q", begun.TakenOver.Back)

	// Back, as it was told, and over to the agent again.
	all[0].direct.stop(syscall.SIGTERM)
	for _, line := range begun.TakenOver.Back {
		if w := strings.Fields(line); w[0] == "mv" {
			if err := os.Rename(w[1], w[2]); err != nil {
				t.Fatal(err)
			}
		}
	}
	hands[0].start(t)
	hands[0].healthy(t)
	if !handover.WentBack(hands[0].dir, all[0].Paths.Data()) {
		t.Error("nothing tells that somebody went back")
	}
	o.Existing = hands[0].look(t, false)
	if begun, err = all[0].Init(t.Context(), o); err != nil {
		t.Fatal(err)
	}

	if said := refusals(hands[1].look(t, false)); !strings.Contains(said, "other hosts: an agent of etcdadm answers at") {
		t.Errorf("a second record is begun: %q", said)
	}
	for i, h := range hands[1:] {
		if i == 0 { // a kubelet, as far as it goes
			manifest := filepath.Join(h.m.Paths.Root, "kubernetes", "manifests", "etcd.yaml")
			if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Dir(manifest), filepath.Join(h.m.Paths.Root, "manifests")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(manifest, []byte("command: [etcd, --data-dir="+h.dir+"]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			go func() {
				for t.Context().Err() == nil {
					if _, err := os.Stat(manifest); err != nil {
						_ = h.cmd.Process.Signal(syscall.SIGTERM)
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		e := h.look(t, true)
		if said := refusals(e); said != "" {
			t.Fatal(said)
		}
		made, err := setup.MakeToken(t.Context(), mustSettings(t, all[0]), setup.NewToken{})
		if err != nil {
			t.Fatal(err)
		}
		secret, err := token.Parse(made.Token.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		j := setup.Join{Endpoint: begun.Endpoint, Token: secret, CAHash: begun.CAHash, Existing: e, Wait: time.Minute}
		if _, err := h.m.Join(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	all[0].voters(t, 3)
	after, err := hands[1].client(t).View(t.Context(), true)
	if err != nil || after.Cluster != before.Cluster || fmt.Sprint(after.Members) != fmt.Sprint(before.Members) {
		t.Errorf("%v: %+v became %+v", err, before, after)
	}
	st, err := hands[1].client(t).Status(t.Context())
	if err != nil || st.Quota != 4294967296 {
		t.Errorf("its quota is %d, %v", st.Quota, err)
	}
	// What ran it before cannot start an empty member in its place.
	for _, h := range hands {
		h.start(t)
		select {
		case <-h.ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the old etcd runs again", h.m.id)
		}
	}
}

func mustSettings(t *testing.T, m *machine) setup.Settings {
	t.Helper()
	s, err := setup.ReadSettings(m.Paths)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
