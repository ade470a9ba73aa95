package etcdscenarios

import (
	"context"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// fakeWorld plays on the simulator's etcd, inside a bubble.
type fakeWorld struct {
	net      *fakeetcd.Net
	release  cluster.Version
	disks    map[string]*fakeetcd.Data
	last     map[string]*fakeetcd.Proc
	launches map[string]record.Launch
	away     map[cluster.HostID]bool
}

func newFakeWorld(v cluster.Version) *fakeWorld {
	w := &fakeWorld{
		release: v, disks: map[string]*fakeetcd.Data{}, last: map[string]*fakeetcd.Proc{},
		launches: map[string]record.Launch{}, away: map[cluster.HostID]bool{},
	}
	w.net = fakeetcd.New(fakeetcd.Options{Seed: 1, Link: func(from, to cluster.HostID) (time.Duration, bool) {
		if from == "" || to == "" { // clients are on every side of a cut
			return time.Millisecond, true
		}
		return time.Millisecond, !w.away[from] && !w.away[to]
	}})
	return w
}

func (w *fakeWorld) version() cluster.Version { return w.release }

func (w *fakeWorld) peerURL(h string) string { return "http://" + h + ":2380" }

func (w *fakeWorld) start(h string, initial []cluster.Member, founding bool, args []string) error {
	l := w.launches[h]
	if initial != nil {
		l = record.Launch{
			Version: w.release, Name: cluster.HostID(h), Token: token, InitialCluster: initial, Founding: founding,
			URLs: cluster.URLs{Peer: []string{w.peerURL(h)}, Client: []string{"http://" + h + ":2379"}},
		}
	}
	l.Options = args
	w.launches[h] = l
	if w.disks[h] == nil {
		w.disks[h] = &fakeetcd.Data{}
	}
	p, err := w.net.Start(cluster.HostID(h), l, w.disks[h])
	if err == nil {
		w.last[h] = p
	}
	return err
}

func (w *fakeWorld) running(h string) bool { return w.net.Running(cluster.HostID(h)) != nil }

func (w *fakeWorld) exit(h string) string { return exitClass(w.last[h].Exit()) }

func (w *fakeWorld) kill(h string) {
	if w.running(h) {
		w.last[h].Kill()
	}
}

func (w *fakeWorld) stop(h string) {
	w.last[h].Stop()
	<-w.last[h].Done()
}

func (w *fakeWorld) pause(h string, on bool) {
	if on {
		w.last[h].Pause()
	} else {
		w.last[h].Resume()
	}
}

func (w *fakeWorld) wipe(h string) { w.disks[h] = &fakeetcd.Data{} }

func (w *fakeWorld) cut(h string, on bool) { w.away[cluster.HostID(h)] = on }

func (w *fakeWorld) member(h string) member.Member { return w.net.Member(cluster.HostID(h)) }

func (w *fakeWorld) clusterVersion(h string) string { return w.last[h].ClusterVersion().String() }

func (w *fakeWorld) kv(h string) kv { return fakeKV{w.net.Client(cluster.HostID(h))} }

type fakeKV struct{ c *fakeetcd.Client }

func (k fakeKV) put(ctx context.Context, key, value string, lease int64) error {
	_, err := k.c.PutWithLease(ctx, key, value, lease)
	return err
}

func (k fakeKV) get(ctx context.Context, key string, local bool) (string, error) {
	read := k.c.Get
	if local {
		read = k.c.LocalGet
	}
	v, err := read(ctx, key)
	return v.Value, err
}

func (k fakeKV) grant(ctx context.Context, id, ttl int64) (int64, error) {
	_, ttl, err := k.c.Grant(ctx, id, ttl)
	return ttl, err
}

func (k fakeKV) keepAlive(ctx context.Context, id int64) (int64, error) {
	return k.c.KeepAlive(ctx, id)
}

func (k fakeKV) revoke(ctx context.Context, id int64) error { return k.c.Revoke(ctx, id) }

func (k fakeKV) alarm(ctx context.Context, kind string, m cluster.MemberID, on bool) error {
	return k.c.Alarm(ctx, kind, m, on)
}

// exitClass names the end of a process by what both kinds of etcd say of it.
func exitClass(said string) string {
	for _, c := range []struct{ words, class string }{
		{"has already been bootstrapped", "already bootstrapped"},
		{"member count is unequal", "member count is unequal"},
		{"unmatched member while checking PeerURLs", "unmatched peer URLs"},
		{"cannot fetch cluster info from peer urls", "no peer answers"},
		{"permanently removed from the cluster", "removed from the cluster"},
		{"permanently removed from this cluster", "removed from the cluster"},
		// Asked for its Status between its removal and its end, a member panics.
		{"failed to find local ID in cluster members", "removed from the cluster"},
		{"is out of range [lastIndex", "panic: the log was lost"},
		{"incompatible with current running cluster", "incompatible with the cluster"},
		{"find local name", "not in the initial cluster"},
		{"address already in use", "address in use"},
		{"killed", "killed"},
	} {
		if strings.Contains(said, c.words) {
			return c.class
		}
	}
	return said
}
