package datadir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/internal/host/record"
	"google.golang.org/protobuf/encoding/protowire"
)

// errNoState says that a state file of etcd-manager names no cluster.
var errNoState = errors.New("it names no cluster")

// ParsePredecessor reads the state file of etcd-manager: a protobuf message
//
//	EtcdState{1 new_cluster, 2 EtcdCluster cluster, 3 etcd_version, 4 quarantined}
//	EtcdCluster{1 desired_cluster_size, 5 cluster_token, 7 repeated EtcdNode nodes}
//	EtcdNode{1 name, 2 repeated peer_urls, 3 repeated client_urls, 4 repeated quarantined_client_urls, 5 tls_enabled}
//
// A message that was cut off is an error, also where the rest would do: nobody
// knows what is missing.
func ParsePredecessor(data []byte) (*record.PredecessorState, error) {
	var s record.PredecessorState
	var inner error
	err := fields(data, func(n protowire.Number, t protowire.Type, v []byte) {
		switch {
		case n == 2 && t == protowire.BytesType:
			b, _ := protowire.ConsumeBytes(v)
			inner = errors.Join(inner, readCluster(&s, b))
		case n == 3 && t == protowire.BytesType:
			b, _ := protowire.ConsumeBytes(v)
			s.Version = string(b)
		case n == 4 && t == protowire.VarintType:
			q, _ := protowire.ConsumeVarint(v)
			s.Quarantined = q != 0
		}
	})
	if err := errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("read the state of etcd-manager: %w", err)
	}
	if s.Token == "" || len(s.Nodes) == 0 || s.Version == "" {
		return nil, fmt.Errorf("read the state of etcd-manager: %w", errNoState)
	}
	return &s, nil
}

// FormatPredecessor is the state file of etcd-manager that says this.
func FormatPredecessor(s record.PredecessorState) []byte {
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	all := text(nil, 5, s.Token)
	for _, n := range s.Nodes {
		node := text(nil, 1, n.Name)
		for i, urls := range [][]string{n.URLs.Peer, n.URLs.Client, n.URLs.Quarantine} {
			for _, u := range urls {
				node = text(node, protowire.Number(2+i), u)
			}
		}
		if len(n.URLs.Peer) > 0 && strings.HasPrefix(n.URLs.Peer[0], "https:") {
			node = protowire.AppendVarint(protowire.AppendTag(node, 5, protowire.VarintType), 1)
		}
		all = text(all, 7, string(node))
	}
	out := text(text(nil, 2, string(all)), 3, s.Version)
	if s.Quarantined {
		out = protowire.AppendVarint(protowire.AppendTag(out, 4, protowire.VarintType), 1)
	}
	return out
}

func readCluster(s *record.PredecessorState, data []byte) error {
	var inner error
	err := fields(data, func(n protowire.Number, t protowire.Type, v []byte) {
		if t != protowire.BytesType {
			return
		}
		b, _ := protowire.ConsumeBytes(v)
		switch n {
		case 5:
			s.Token = string(b)
		case 7:
			node, err := readNode(b)
			inner = errors.Join(inner, err)
			s.Nodes = append(s.Nodes, node)
		}
	})
	return errors.Join(err, inner)
}

func readNode(data []byte) (node record.PredecessorNode, err error) {
	err = fields(data, func(n protowire.Number, t protowire.Type, v []byte) {
		if t != protowire.BytesType {
			return
		}
		b, _ := protowire.ConsumeBytes(v)
		switch text := string(b); n {
		case 1:
			node.Name = text
		case 2:
			node.URLs.Peer = append(node.URLs.Peer, text)
		case 3:
			node.URLs.Client = append(node.URLs.Client, text)
		case 4:
			node.URLs.Quarantine = append(node.URLs.Quarantine, text)
		}
	})
	for _, urls := range [][]string{node.URLs.Peer, node.URLs.Client, node.URLs.Quarantine} {
		slices.Sort(urls)
	}
	return node, err
}
