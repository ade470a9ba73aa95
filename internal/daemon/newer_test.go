package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testlater"
	"etcdadm.io/internal/testlog"
)

// A daemon that is started over the state of a later release says which one to start, promises
// nothing, and leaves the state as it is.
func TestStateOfALaterReleaseIsLeftAlone(t *testing.T) {
	cfg := configOf(t, t.TempDir())
	in := &cluster.Intent{Name: cfg.ClusterName, Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded}
	keep(t, cfg.DataDir, record.State{Cluster: cfg.ClusterName, Intent: in, Promised: cluster.Fence{Number: 1, Host: "x"}})
	path := filepath.Join(cfg.DataDir, "etcdadm", "state.json")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ State any }
	if err := json.Unmarshal(before, &file); err != nil {
		t.Fatal(err)
	}
	for _, state := range testlater.Forms(t, file.State, "/intent/") {
		before = fmt.Appendf(nil, `{"state":%s,"sha256":"%x"}`, state, sha256.Sum256(state))
	}
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}

	var log testlog.Lines
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cfg.HostID = "h"
	go func() { ended <- Run(ctx, cfg, Program{}, slog.New(slog.NewTextHandler(&log, nil))) }()
	defer cancel()
	pool, err := peer.NewPool(pki.Identity{Cluster: cfg.ClusterName, Role: pki.RoleHost, ID: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	fence := cluster.Fence{Number: 9, Host: "x"}
	said := ""
	for began := time.Now(); !strings.Contains(said, "state-unreadable"); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("it says %s\n%s", said, log.String())
		}
		client, err := pool.To(cluster.Contact{Host: "h", Endpoint: net.JoinHostPort(cfg.Address, strconv.Itoa(cfg.GRPCPort))})
		if err != nil {
			t.Fatal(err)
		}
		askCtx, done := context.WithTimeout(ctx, 2*time.Second)
		reply, err := client.Observe(askCtx, cluster.ObserveRequest{Fence: fence, Intent: &cluster.Intent{Name: cfg.ClusterName, Generation: 5, Nonce: "n5", Token: "t5", State: cluster.IntentFounded}})
		done()
		if err == nil && reply.State != nil && (reply.Stamp != "" || reply.State.Promised == fence || reply.State.Intent != nil) {
			t.Fatalf("it promises: %+v", reply.State)
		}
		answer, err := json.Marshal(reply)
		if said = string(answer); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range []string{testlater.Field, "newer release of etcdadm", "start the etcdadm release that wrote it", "leave the data directory as it is"} {
		if !strings.Contains(said, words) {
			t.Errorf("it does not say %q: %s", words, said)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the state was changed: %v\n%s\n%s", err, before, after)
	}
}
