package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/discovery"
)

// Static is a static configuration: it takes the place of discovery and of
// the spec in the store. Source: the predecessor's --static-config.
type Static struct {
	EtcdVersion string       `json:"etcdVersion"`
	Nodes       []StaticNode `json:"nodes"`
}

// StaticNode is one host; an "ip" may be a host name.
type StaticNode struct {
	ID string   `json:"id"`
	IP []string `json:"ip"`
}

// ParseStatic reads a static configuration and refuses one that cannot be.
func ParseStatic(text string) (*Static, error) {
	const example = `such as {"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["192.0.2.1"]}]}`
	d := json.NewDecoder(strings.NewReader(text))
	var s Static
	if err := d.Decode(&s); err != nil {
		return nil, &Error{Problem: "--static-config is not the JSON that is wanted", Advice: example, Err: err}
	}
	if d.More() {
		return nil, mistake(example, "--static-config holds more than one value")
	}
	for i, n := range s.Nodes {
		switch {
		case n.ID == "":
			return nil, mistake(example, "--static-config: node %d has no id", i+1)
		case len(n.IP) == 0:
			return nil, mistake(example, "--static-config: node %s has no ip", n.ID)
		case slices.ContainsFunc(s.Nodes[:i], func(o StaticNode) bool { return o.ID == n.ID }):
			return nil, mistake("each host has an id of its own", "--static-config names node %s twice", n.ID)
		}
	}
	spec, err := s.Spec()
	if err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, &Error{Problem: "--static-config", Err: err, Advice: example}
	}
	return &s, nil
}

// Spec is the spec that the static configuration amounts to.
func (s *Static) Spec() (cluster.Spec, error) {
	v, err := cluster.ParseVersion(s.EtcdVersion)
	if err != nil {
		return cluster.Spec{}, &Error{Problem: "--static-config", Err: err, Advice: `such as "etcdVersion":"3.6.16"`}
	}
	spec := cluster.Spec{MemberCount: len(s.Nodes), EtcdVersion: v}
	for _, n := range s.Nodes {
		spec.Hosts = append(spec.Hosts, cluster.HostID(n.ID))
	}
	slices.Sort(spec.Hosts)
	return spec, nil
}

// Seeds are the other hosts' daemons.
func (s *Static) Seeds(port int) (discovery.Static, error) {
	var entries []string
	for _, n := range s.Nodes {
		for _, ip := range n.IP {
			entries = append(entries, net.JoinHostPort(ip, fmt.Sprint(port)))
		}
	}
	return discovery.ParseStatic(entries, port)
}

// Self is the node whose address this host has; host names are looked up.
func (s *Static) Self(ctx context.Context, address string) (cluster.HostID, error) {
	for _, n := range s.Nodes {
		for _, ip := range n.IP {
			if ip == address {
				return cluster.HostID(n.ID), nil
			}
		}
	}
	for _, n := range s.Nodes {
		for _, ip := range n.IP {
			if net.ParseIP(ip) != nil {
				continue
			}
			found, err := net.DefaultResolver.LookupHost(ctx, ip)
			if err == nil && slices.Contains(found, address) {
				return cluster.HostID(n.ID), nil
			}
		}
	}
	return "", mistake("give --address as one of the nodes has it", "--static-config has no node with the address %s", address)
}
