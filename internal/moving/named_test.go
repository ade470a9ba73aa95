package moving

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/peer"
)

// The name of a store that is gone, as after the record was written there anew from what hosts remember, is written again by a leading host
// that followed to it, so that hosts that join later are of that place too. A store with another cluster's record gets no name.
func TestNameIsWrittenAgain(t *testing.T) {
	kept := &cluster.Intent{Name: "c", Generation: 1, Nonce: "n", Token: "t", Write: 3, State: cluster.IntentFounded, Cluster: 7}
	for name, c := range map[string]struct {
		there  cluster.Intent
		leads  error
		writes bool
	}{
		"its record":               {*kept, nil, true},
		"another cluster's record": {cluster.Intent{Name: "c", Generation: 1, Nonce: "o", Token: "u", Write: 3, State: cluster.IntentFounded, Cluster: 8}, nil, false},
		"another host leads":       {*kept, errors.New("it does not lead"), false},
	} {
		store := memory.New()
		data, err := json.Marshal(c.there)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blob.PutBytes(t.Context(), store, control.KeyIntent, data, blob.Any); err != nil {
			t.Fatal(err)
		}
		f := &Follower{
			File:    &File{path: t.TempDir() + "/" + FileName, on: durable.OS(), notes: Notes{Place: &Place{Offer: peer.Offer{Name: "S", From: "r"}, InForce: true}}},
			Cluster: "c", Intent: func(context.Context) (*cluster.Intent, error) { return kept, nil },
			Home: &Homing{Leads: func() error { return c.leads }},
		}
		err = f.keepName(t.Context(), store)
		p, failed := which(t.Context(), store)
		if failed != nil || (p != nil) != c.writes || c.writes && (err != nil || p.Name != "S" || p.From != "r" || p.Cluster != "c") {
			t.Errorf("%s: %+v %v %v", name, p, err, failed)
		}
	}
}
