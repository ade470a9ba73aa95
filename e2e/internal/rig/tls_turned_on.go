package rig

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// PlainClient is a client without TLS of all hosts.
func (c *Cluster) PlainClient() *clientv3.Client {
	c.T.Helper()
	var endpoints []string
	for _, h := range c.Hosts {
		endpoints = append(endpoints, strings.Replace(h.ClientURL(), "https", "http", 1))
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.T.Fatal(err)
	}
	return client
}

// ListedAt waits for three voters whose URLs all begin so, and returns their IDs.
func (c *Cluster) ListedAt(client *clientv3.Client, scheme string) map[uint64]bool {
	c.T.Helper()
	ids := map[uint64]bool{}
	Eventually(c.T, 3*Soon, "three voters at "+scheme, func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		clear(ids)
		for _, m := range list.Members {
			if m.IsLearner || len(m.PeerURLs) != 1 || len(m.ClientURLs) != 1 || !strings.HasPrefix(m.PeerURLs[0], scheme) || !strings.HasPrefix(m.ClientURLs[0], scheme) {
				return fmt.Errorf("%s", m)
			}
			ids[m.ID] = true
		}
		if len(ids) != 3 {
			return fmt.Errorf("%d members", len(ids))
		}
		return nil
	})
	return ids
}
