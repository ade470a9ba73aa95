package peer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testlater"
	"google.golang.org/grpc"
)

// anIntent has an object of each kind in it.
func anIntent() *cluster.Intent {
	voters := []cluster.Voter{{Host: "h1", Member: 1}}
	return &cluster.Intent{
		Name: "c1", Generation: 2, Nonce: "n", Token: "t", State: cluster.IntentFounded, Voters: voters, Next: voters,
		Founders: []cluster.Founder{{Host: "h1"}}, Source: cluster.Source{Kind: cluster.SourceBackup}, Unstored: cluster.Fence{Number: 1},
		Count: &cluster.CountChange{}, Pending: []cluster.VoterChange{{}}, Halt: &cluster.Halt{}, History: []cluster.PastGeneration{{Voters: [][]cluster.Voter{voters}}},
	}
}

// A host that is shown a record of a later release says so, and its handler, which would promise
// and keep what is left of it, never sees the call.
func TestObserveWithARecordOfALaterRelease(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	ctx := within(t, 30*time.Second)
	request := cluster.ObserveRequest{Fence: cluster.Fence{Number: 7, Host: "h2"}, Intent: anIntent()}
	must(t, second(c.Observe(ctx, request)))
	before := len(srv.handler.callers)
	for at, body := range testlater.Forms(t, request, "/intent/") {
		_, _, err := call[cluster.ObserveReply](ctx, c, observe, c.rpc.Observe, json.RawMessage(body))
		wantFailure(t, err, ErrProtocol, false)
		told, _ := errors.AsType[*Error](err)
		if told == nil || told.Hint() != "update etcdadm on host h1" || !strings.Contains(err.Error(), "host h1 runs an older release") || !strings.Contains(err.Error(), testlater.Field) || !IsThere(err) {
			t.Errorf("with a field more at %s: %v", at, err)
		}
	}
	if len(srv.handler.callers) != before {
		t.Error("the handler was called")
	}
	// What is no record may have more to say.
	body := testlater.Forms(t, cluster.ObserveRequest{}, "")[""]
	if _, _, err := call[cluster.ObserveReply](ctx, c, observe, c.rpc.Observe, json.RawMessage(body)); err != nil {
		t.Errorf("a request with a field more: %v", err)
	}
	must(t, srv.stop())
	if !strings.Contains(srv.log.String(), "older release") {
		t.Errorf("the host does not say it:\n%s", srv.log)
	}
}

// A host that keeps a record of a later release is none of which this one has seen anything.
func TestAnswerWithARecordOfALaterRelease(t *testing.T) {
	c, err := pool(t, as(pki.RoleHost, "h2"), nil).To(cluster.Contact{Host: "h1", Endpoint: "192.0.2.1:4000"})
	must(t, err)
	reply := cluster.ObserveReply{Stamp: "s", State: &cluster.HostState{Host: "h1", Cluster: "c1", Intent: anIntent()}}
	answered := func(body []byte) (cluster.ObserveReply, error) {
		do := func(context.Context, *peerpb.Call, ...grpc.CallOption) (*peerpb.Answer, error) {
			return &peerpb.Answer{Host: "h1", Body: body}, nil
		}
		got, _, err := call[cluster.ObserveReply](t.Context(), c, observe, do, struct{}{})
		return got, err
	}
	for at, body := range testlater.Forms(t, reply, "/intent/") {
		got, err := answered(body)
		wantFailure(t, err, ErrProtocol, true)
		told, _ := errors.AsType[*Error](err)
		if told == nil || told.Hint() != "update etcdadm on host h2" || !strings.Contains(err.Error(), "host h1 runs a newer release") || !IsThere(err) || got.State != nil || got.Stamp != "" {
			t.Errorf("with a field more at %s: %+v, %v", at, got, err)
		}
	}
	for at, body := range testlater.Forms(t, reply, "/state/") {
		if _, err := answered(body); err != nil && !strings.Contains(at, "/intent") {
			t.Errorf("with a field more at %s, which is no record: %v", at, err)
		}
	}
}
