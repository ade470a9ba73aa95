package host_test

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// TestPeersSpeakTLSOnAWordOnly: TLS between members takes a leader's word,
// whatever the host is set to; a member that has it is not started without.
func TestPeersSpeakTLSOnAWordOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		secure := cluster.URLs{Peer: []string{"https://h1:2380"}, Client: []string{"https://h1:4001"}, Quarantine: []string{"https://h1:8001"}}
		d = m.boot(func(_ *session, o *host.Options) { o.URLs = secure })
		launched := func() (string, string) {
			_, starts := m.process()
			l := starts[len(starts)-1]
			return l.URLs.Peer[0], l.URLs.Client[0]
		}
		restart := cluster.Op{Kind: cluster.OpRestart, Member: 9, Cluster: joinOp(9).Cluster}
		d.must(1, restart)
		if peer, client := launched(); peer != ownURLs.Peer[0] || client != secure.Client[0] {
			t.Errorf("told nothing, it listens at %s for members, and at %s for clients", peer, client)
		}
		word := restart
		word.PeerURLs = []string{"https://h2:2380"}
		d.mustRefuse(1, word)
		word.PeerURLs = secure.Peer
		d.must(1, word)
		if peer, _ := launched(); peer != secure.Peer[0] {
			t.Errorf("told to, it listens at %s", peer)
		}
		d.must(1, restart)
		if peer, _ := launched(); peer != secure.Peer[0] {
			t.Errorf("restarted once more, it listens at %s", peer)
		}
		d.end()
		d = m.boot()
		defer d.end()
		d.mustRefuse(1, restart)
		if runs, _ := m.process(); !runs {
			t.Error("it was stopped although it could not be started")
		}
	})
}
