package snapshot

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

func memberOf(t testing.TB, c *testetcd.Cluster, i int) cluster.MemberID {
	t.Helper()
	s, err := c.Client(t, i).Status(within(t), c.Members[i].Endpoint())
	must(t, err)
	return cluster.MemberID(s.Header.MemberId)
}

// activePeers is whom an etcd is connected with, by member ID.
func activePeers(t testing.TB, url string) map[string]string {
	t.Helper()
	response, err := http.Get(url + "/metrics")
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	http.DefaultClient.CloseIdleConnections()
	active := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if labels, ok := strings.CutPrefix(line, "etcd_network_active_peers{"); ok {
			_, remote, _ := strings.Cut(labels, `Remote="`)
			id, value, _ := strings.Cut(remote, `"} `)
			active[id] = strings.TrimSpace(value)
		}
	}
	return active
}

// Others of the cluster that are still alive do not take the copy for the
// member: it could acknowledge writes to them that nobody keeps.
func TestCopyIsNoMember(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		ctx := within(t)
		c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3})
		leader := leaderOf(t, c)
		dead, stopped := (leader+1)%3, (leader+2)%3
		client := c.Client(t, leader)
		fill(t, client)
		must(t, c.Kill(ctx, dead, syscall.SIGKILL))
		r, err := openRemains(within(t), c.Members[dead].DataDir)
		must(t, err)
		defer r.close()
		s, err := openSite(ctx, filepath.Join(t.TempDir(), "site"))
		must(t, err)
		defer s.close()
		must(t, copyRemains(ctx, r, s.path("data")))
		must(t, rewriteLog(ctx, r, filepath.Join(s.path("data"), "member", "wal")))
		srv, err := startServer(theRelease(t, version), s, s.path("data"), "--snapshot-count=1")
		must(t, err)
		defer srv.kill()
		snap := filepath.Join(s.path("data"), "member", "snap")
		must(t, srv.until(ctx, "has applied all", func(context.Context) (bool, error) {
			n, err := newestSnapshot(snap)
			return n > r.Last.Index, err
		}))
		freeze(t, c, stopped)
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if _, err := client.Put(short, "x", "v"); err == nil {
			t.Error("the copy acknowledged a write")
		}
		must(t, c.Kill(ctx, stopped, syscall.SIGCONT))
		put(t, client, "y", "v")
		for i, want := range map[cluster.MemberID]string{r.Member: "0", memberOf(t, c, stopped): "1"} {
			if got := activePeers(t, c.Members[leader].ClientURL)[i.String()]; got != want {
				t.Errorf("the leader has %s connections with %s, want %s", got, i, want)
			}
		}
		if n, err := newestSnapshot(snap); err != nil || n > r.Last.Index+padding {
			t.Errorf("the copy has applied %d (%v), its log ended at %d", n, err, r.Last.Index)
		}
	})
}
