package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
)

// Whoever is not the operator is refused before the daemon is asked at all: there is none here.
func TestOnlyTheOperatorChanges(t *testing.T) {
	h := handler{}
	for _, role := range []pki.Role{pki.RoleReader, pki.RoleHost, "", "root"} {
		from := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: role, ID: "x"}, Verified: true}
		for _, kind := range []string{console.AskForget, console.AskFence, console.AskPrune, console.AskLog, console.AskServed, console.AskReleases, console.AskLastWord, "", "new"} {
			q, err := json.Marshal(console.Question{Kind: kind, Host: "h", Do: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Report(context.Background(), from, q); err == nil || !strings.Contains(err.Error(), "operator") && kind != "" {
				t.Errorf("%s asked %q: %v", role, kind, err)
			}
		}
	}
}

// A host brings its own fence, and nobody else's.
func TestAHostSpeaksForItselfOnly(t *testing.T) {
	h := handler{}
	from := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "h2"}, Verified: true}
	fence := cluster.Fence{Number: 1 << 40, Host: "h3"}
	if _, err := h.Observe(context.Background(), from, cluster.ObserveRequest{Fence: fence}); err == nil {
		t.Error("a promise to another host was asked for")
	}
	for _, f := range []cluster.Fence{fence, {}, {Number: 7}} {
		if _, err := h.Apply(context.Background(), from, cluster.ApplyRequest{Fence: f}); err == nil {
			t.Errorf("an op under the fence %+v was taken", f)
		}
	}
}
