package keycopy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// Leases that would end while their keys are copied are kept by Renew, and are a
// source that changed without it.
func TestShortLeases(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V36), start(t, testetcd.V34)
	lease := from.grant(2)
	from.put("short", "v", lease)
	from.load(2000, 100)
	slow := func(o keycopy.Options) keycopy.Options {
		until := time.Now().Add(5 * time.Second)
		o.Progress = func(int64, int64) { time.Sleep(time.Until(until)) } // longer than the lease
		return o
	}
	done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), slow(keycopy.Options{Renew: true}))
	if err != nil || done.Leases != 1 || done.Keys != 2001 {
		t.Fatalf("%+v, %v", done, err)
	}
	into := start(t, testetcd.V34)
	if _, err := keycopy.Copy(t.Context(), from.endpoint(), into.endpoint(), slow(keycopy.Options{})); !errors.Is(err, keycopy.ErrSourceChanged) {
		t.Errorf("%v", err)
	}
}

// To version 2, a key on a short lease that is kept in the source gets all of its TTL
// when it is written, and that is last of all, however late its turn would have been.
func TestShortLeasesToVersion2(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V32), start(t, testetcd.V23)
	brief, long := from.grant(2), from.grant(60)
	keys := map[string]clientv3.LeaseID{"/a": brief, "/b/_hidden": brief, "/z/late": brief, "/b/long": long, "/z/long": long}
	for key, lease := range keys {
		from.put(key, "v", lease)
	}
	stop, err := keycopy.Keep(t.Context(), from.endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i := range 1000 {
		from.put(fmt.Sprintf("/k/%04d", i), "v", 0)
	}
	began := time.Now()
	done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true, Renew: true, Progress: func(int64, int64) {
		time.Sleep(time.Until(began.Add(5 * time.Second))) // longer than the lease
	}})
	if err != nil || done.Keys != int64(1000+len(keys)) || done.Leases != 2 || done.RanOut != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	there := map[string]map[string]any{}
	for _, dir := range []string{"/", "/b/_hidden"} {
		collect(to.v2do(http.MethodGet, dir, url.Values{"recursive": {"true"}})["node"], there)
	}
	for key, lease := range keys {
		ttl, _ := there[key]["ttl"].(float64)
		least, most := 50.0, 60.0
		if lease == brief {
			least, most = 20, 30
		}
		before := 0
		for _, other := range there {
			if other["ttl"] == nil && index(other) < index(there[key]) {
				before++
			}
		}
		if ttl < least || ttl > most || before < 400 { // the rest may be on its way, with 64 writers of eight keys
			t.Errorf("%s: %v, after %d keys that last", key, there[key], before)
		}
	}
}

func index(node map[string]any) float64 {
	index, _ := node["createdIndex"].(float64)
	return index
}

// collect takes the keys out of a listing of version 2.
func collect(node any, into map[string]map[string]any) {
	at, _ := node.(map[string]any)
	nodes, _ := at["nodes"].([]any)
	for _, below := range nodes {
		collect(below, into)
	}
	if key, _ := at["key"].(string); at["dir"] != true {
		into[key] = at
	}
}

// Leases that are kept last as long as that, and no longer, also where the release does
// not list them.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V36, testetcd.V32} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			from := start(t, version)
			var all sync.WaitGroup
			for i := range 200 {
				all.Go(func() { from.put(fmt.Sprint(i), "v", from.grant(10)) })
			}
			all.Wait()
			stop, err := keycopy.Keep(t.Context(), from.endpoint())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second) // without it all have ended
			if now := len(from.read()); now != 200 {
				t.Errorf("%d keys of 200", now)
			}
			stop()
			from.until("end of the leases", func() bool { return len(from.read()) == 0 })
		})
	}
}

// The TTL that is left, where it is asked for.
func TestRemaining(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V36), start(t, testetcd.V34)
	lease := from.grant(100)
	from.put("k", "v", lease)
	for {
		if _, left := from.ttl(int64(lease)); left < 98 {
			break
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{Remaining: true}); err != nil {
		t.Fatal(err)
	}
	if granted, _ := to.ttl(int64(lease)); granted > 97 || granted < 60 {
		t.Errorf("%d s", granted)
	}
}

// Both sides by TLS, and by a connection that the caller makes.
func TestTLSAndDial(t *testing.T) {
	t.Parallel()
	ends := map[string]*server{}
	for _, version := range []string{testetcd.V23, testetcd.V32, testetcd.V34, testetcd.V37} {
		c := testetcd.Start(t, testetcd.Config{Version: version, TLS: true})
		ends[version] = &server{t: t, cluster: c, url: c.Members[0].ClientURL}
	}
	ends[testetcd.V37].put("/dir/key", "v", 0)
	for _, way := range [][2]string{
		{testetcd.V37, testetcd.V34}, {testetcd.V34, testetcd.V23}, {testetcd.V23, testetcd.V32},
	} {
		from, to := ends[way[0]], ends[way[1]].endpoint()
		address := ends[way[1]].cluster.Members[0].Endpoint()
		to.URLs = []string{"https://127.0.0.1:1"}
		to.Dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
		source := from.endpoint()
		source.URLs = append([]string{"https://127.0.0.1:1"}, source.URLs...) // one that does not answer
		if _, err := keycopy.Copy(t.Context(), source, to, keycopy.Options{}); err != nil {
			t.Fatalf("%s to %s: %v", way[0], way[1], err)
		}
	}
	if diff := cmp.Diff(map[string]held{"/dir/key": {Value: "v"}}, ends[testetcd.V32].read()); diff != "" {
		t.Error(diff)
	}
}
