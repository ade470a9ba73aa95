// Package kubeadm writes the part of kubeadm's configuration that gives a Kubernetes cluster an external etcd.
//
// What must always hold: what is written is all that an API server needs, and of a cluster that serves ordinary
// clients: while that is not known, nothing is written.
package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"sigs.k8s.io/yaml"
)

// Version is kubeadm's format that is written. kubeadm has it since Kubernetes 1.31.
const Version = "kubeadm.k8s.io/v1beta4"

// Configuration is kubeadm's ClusterConfiguration, as far as it is about etcd.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Etcd       Etcd   `json:"etcd"`
}

// Etcd has the external etcd, beside which kubeadm allows no other.
type Etcd struct {
	External External `json:"external"`
}

// External is how an API server reaches etcd. The files are empty for an etcd without TLS.
type External struct {
	Endpoints []string `json:"endpoints"`
	CAFile    string   `json:"caFile"`
	CertFile  string   `json:"certFile"`
	KeyFile   string   `json:"keyFile"`
}

// Files are where the API server's machine has its certificate.
type Files struct {
	CA, Cert, Key string
}

// Errors that callers decide by.
var (
	// ErrUnknown says that the members are not known now.
	ErrUnknown = errors.New("the members are not known now")
	// ErrQuarantine says that ordinary clients are kept out of the cluster now.
	ErrQuarantine = errors.New("the cluster is in quarantine")
)

// Error is why there is no configuration, for people.
type Error struct {
	Problem string
	Err     error
	Advice  string
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: %s", e.Err, e.Problem)
	}
	return e.Problem
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the way out.
func (e *Error) Hint() string { return e.Advice }

// Of is the configuration for the cluster as it was observed: with the client URLs of all voters, those that are down
// too, because an API server keeps it for as long as it runs.
//
// Errors: *Error, with ErrUnknown or ErrQuarantine where waiting helps.
func Of(o *cluster.Observation, f Files) (Configuration, error) {
	out := Configuration{APIVersion: Version, Kind: "ClusterConfiguration"}
	if o == nil {
		return out, &Error{Problem: "no agent leads", Err: ErrUnknown, Advice: "etcdadm status says what is waited for; then run it again"}
	}
	if in := o.Intent(); in != nil && in.Quarantined {
		return out, &Error{Problem: "clients reach no member at its usual address", Err: ErrQuarantine, Advice: "run it again when etcdadm status says that the cluster serves"}
	}
	roster, ok := o.Roster()
	if !ok || len(roster.Voters()) == 0 {
		return out, &Error{Problem: "no member list is in sight", Err: ErrUnknown, Advice: "etcdadm status says what is waited for; then run it again"}
	}
	tls, plain := "", ""
	for _, seat := range roster.Voters() {
		if len(seat.ClientURLs) == 0 {
			return out, &Error{Problem: fmt.Sprintf("member %s has not told its client URLs", seat.ID), Err: ErrUnknown, Advice: "wait until it has started: etcdadm status"}
		}
		for _, raw := range seat.ClientURLs {
			u, err := url.Parse(raw)
			if err != nil || u.Host == "" {
				return out, &Error{Problem: fmt.Sprintf("member %s has the client URL %q, which is none", seat.ID, raw)}
			}
			if u.Scheme == "https" {
				tls = raw
			} else {
				plain = raw
			}
			out.Etcd.External.Endpoints = append(out.Etcd.External.Endpoints, raw)
		}
	}
	if tls != "" && plain != "" {
		return out, &Error{Problem: fmt.Sprintf("some members have TLS and some do not: %s, %s", tls, plain), Advice: "finish turning TLS on first: docs/operations/tls.md"}
	}
	if tls != "" {
		out.Etcd.External.CAFile, out.Etcd.External.CertFile, out.Etcd.External.KeyFile = f.CA, f.Cert, f.Key
	}
	slices.Sort(out.Etcd.External.Endpoints)
	out.Etcd.External.Endpoints = slices.Compact(out.Etcd.External.Endpoints)
	return out, nil
}

const (
	// DefaultWait is how long the members are waited for: a founded cluster knows them after some seconds.
	DefaultWait = 15 * time.Second
	// lookEvery is how often they are asked for.
	lookEvery = 300 * time.Millisecond
)

// Await is Of for what look sees, which is asked again until the members are known or ctx ends. Say is told once what is
// waited for.
//
// Errors: those of Of; the first one of look.
func Await(ctx context.Context, look func(context.Context) (*cluster.Observation, error), f Files, say func(sentence string)) (Configuration, *cluster.Observation, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var unknown error // by the last look
	for {
		o, err := look(ctx)
		if err != nil && unknown != nil && ctx.Err() != nil { // the time was up within the look
			err = unknown
		}
		if err != nil {
			return Configuration{}, nil, err
		}
		c, err := Of(o, f)
		if !errors.Is(err, ErrUnknown) {
			return c, o, err
		}
		if unknown == nil {
			say(err.Error())
		}
		unknown = err
		select {
		case <-ctx.Done():
			return Configuration{}, o, err
		case <-tick.C:
		}
	}
}

// Missing is how many voters are wanted that there are not yet: what Of gives lacks their endpoints.
func Missing(o *cluster.Observation) int {
	if o == nil || o.Wanted() == nil {
		return 0
	}
	roster, _ := o.Roster()
	return max(0, o.Wanted().MemberCount-len(roster.Voters()))
}

// YAML is the configuration as kubeadm reads it.
func (c Configuration) YAML() ([]byte, error) {
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write kubeadm's configuration: %w", err)
	}
	return data, nil
}
