package datadir_test

import "etcdadm.io/cluster"

var (
	v36     = cluster.MustVersion("3.6.16")
	ownURLs = cluster.URLs{Peer: []string{"http://h1:2380"}, Client: []string{"http://h1:4001"}, Quarantine: []string{"http://h1:8001"}}
)
