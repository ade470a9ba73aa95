package manager

import (
	"context"
	"encoding/json"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
)

// Peers is the Network of a real daemon.
type Peers struct{ Pool *peer.Pool }

var _ Network = Peers{}

// Ping talks to whoever answers at the endpoint.
func (n Peers) Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) {
	c, err := n.Pool.To(cluster.Contact{Endpoint: endpoint})
	if err != nil {
		return cluster.Ping{}, err
	}
	return c.Ping(ctx, p)
}

// Observe asks a host for facts.
func (n Peers) Observe(ctx context.Context, to cluster.Contact, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	c, err := n.Pool.To(to)
	if err != nil {
		return cluster.ObserveReply{}, err
	}
	return c.Observe(ctx, r)
}

// Apply asks a host for one op.
func (n Peers) Apply(ctx context.Context, to cluster.Contact, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	c, err := n.Pool.To(to)
	if err != nil {
		return cluster.ApplyReply{}, err
	}
	return c.Apply(ctx, r)
}

// Goal hands a person's step to another daemon.
func (n Peers) Goal(ctx context.Context, to cluster.Contact, wish json.RawMessage) (json.RawMessage, error) {
	c, err := n.Pool.To(to)
	if err != nil {
		return nil, err
	}
	return c.Goal(ctx, wish)
}

// Handler answers the calls of other daemons and of people.
type Handler struct {
	Manager *Manager
	Local   Local
}

var _ peer.Handler = Handler{}

// Ping answers gossip.
func (h Handler) Ping(ctx context.Context, _ peer.Caller, p cluster.Ping) (cluster.Ping, error) {
	return h.Manager.Ping(ctx, p)
}

// Observe gives this host's facts, and its promise where a fence asks for it.
func (h Handler) Observe(ctx context.Context, _ peer.Caller, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	return h.Local.Observe(ctx, r), nil
}

// Apply carries out one op on this host.
func (h Handler) Apply(ctx context.Context, _ peer.Caller, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	return h.Local.Apply(ctx, r), nil
}

// Goal carries out a person's step.
func (h Handler) Goal(ctx context.Context, _ peer.Caller, wish json.RawMessage) (json.RawMessage, error) {
	return h.Manager.HandleGoal(ctx, wish)
}

// Report answers with this daemon's Status, whatever was asked.
func (h Handler) Report(context.Context, peer.Caller, json.RawMessage) (json.RawMessage, error) {
	data, err := json.Marshal(h.Manager.Status())
	if err != nil {
		return nil, fmt.Errorf("report the status: %w", err)
	}
	return data, nil
}
