package versions

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/testkube"
)

var withAPIServer = flag.Bool("e2e.apiserver", false, "run kube-apiserver on a cluster (it is built first: minutes)")

const (
	configMaps = "/api/v1/namespaces/default/configmaps"
	// attempt is after how long a client of the API server asks again. Proposals that a follower passes on to a raft leader that is
	// just handing over are dropped by etcd without a word, and the API server waits for them.
	attempt = 2 * time.Second
	// longestWrite bounds a write with all its attempts: an attempt that hangs and one that succeeds, on a machine with other work.
	longestWrite = 15 * time.Second
)

// configMap is what this test knows of one.
type configMap struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Data map[string]string `json:"data,omitempty"`
}

func (m configMap) Revision() int64 {
	n, _ := strconv.ParseInt(m.Metadata.ResourceVersion, 10, 64) // 0: none
	return n
}

func newConfigMap(name, value string) configMap {
	m := configMap{Data: map[string]string{"value": value}}
	m.Metadata.Name = name
	return m
}

// kube is what clients of an API server did and saw.
type kube struct {
	*testkube.Server
	t *testing.T

	mu      sync.Mutex           // guards what follows
	acked   map[int64]configMap  // by resource version
	current map[string]configMap // acknowledged last; not there: deleted
	events  map[int64]configMap  // what the watch told
	deleted map[string]int64     // as the watch told
	last    int64                // resource version of the watch
	writes  int
	failed  int // attempts
	longest time.Duration
	watches int
}

// request asks once. An answer with a status that is no success is an error of type statusError.
func (k *kube) request(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	err := k.Do(ctx, method, path, in, out)
	if status := new(testkube.StatusError); errors.As(err, &status) {
		return statusError(status.Code)
	}
	return err
}

type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// Write has a config map be as wanted, however many attempts that takes: after one without a clear answer it looks what came of
// it. It returns the resource version; 0 when everything ends.
func (k *kube) Write(ctx context.Context, m configMap) configMap {
	began, attempts := time.Now(), 0
	for ; ctx.Err() == nil; attempts++ {
		var out configMap
		method, path := http.MethodPut, configMaps+"/"+m.Metadata.Name
		if m.Metadata.ResourceVersion == "" {
			method, path = http.MethodPost, configMaps
		}
		err := k.request(context.WithoutCancel(ctx), method, path, m, &out)
		if err != nil { // it may have happened all the same
			k.fails(m, err, attempts)
			if err = k.request(context.WithoutCancel(ctx), http.MethodGet, configMaps+"/"+m.Metadata.Name, nil, &out); err == nil {
				m.Metadata.ResourceVersion = out.Metadata.ResourceVersion
				if out.Data["value"] != m.Data["value"] {
					err = errors.New("it did not happen")
				}
			}
		}
		if err == nil {
			k.done(out, time.Since(began))
			return out
		}
		time.Sleep(20 * time.Millisecond) // a client's back-off
	}
	return configMap{}
}

// fails counts an attempt. Without one before it a conflict is a mistake of the store: nobody else writes this name.
func (k *kube) fails(m configMap, err error, attempts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed++
	var status statusError
	if errors.As(err, &status) && status == http.StatusConflict && attempts == 0 {
		k.t.Errorf("%s at %s conflicts with nobody", m.Metadata.Name, m.Metadata.ResourceVersion)
	}
	k.t.Logf("attempt %d for %s: %v", attempts+1, m.Metadata.Name, err)
}

func (k *kube) done(m configMap, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	k.longest = max(k.longest, took)
	k.acked[m.Revision()], k.current[m.Metadata.Name] = m, m
}

// Run creates, updates and deletes config maps of its own, one after the other.
func (k *kube) Run(ctx context.Context, series int) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("w%d-%d", series, n)
		m := k.Write(ctx, newConfigMap(name, "0"))
		first := m.Metadata.ResourceVersion
		for i := 1; i < 8 && ctx.Err() == nil; i++ {
			m.Data = map[string]string{"value": fmt.Sprint(i)}
			m = k.Write(ctx, m)
			time.Sleep(10 * time.Millisecond) // a load, not a benchmark
		}
		if ctx.Err() != nil {
			return
		}
		stale := newConfigMap(name, "stale")
		stale.Metadata.ResourceVersion = first
		if err := k.request(ctx, http.MethodPut, configMaps+"/"+name, stale, nil); err == nil {
			k.t.Errorf("%s was changed by a client that had read it as of %s, and it is as of %s", name, first, m.Metadata.ResourceVersion)
		}
		if n%2 == 1 {
			k.delete(ctx, name)
		}
	}
}

func (k *kube) delete(ctx context.Context, name string) {
	for began := time.Now(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		err := k.request(context.WithoutCancel(ctx), http.MethodDelete, configMaps+"/"+name, nil, nil)
		var status statusError
		if err == nil || errors.As(err, &status) && status == http.StatusNotFound {
			k.mu.Lock()
			k.writes++
			k.longest = max(k.longest, time.Since(began))
			delete(k.current, name)
			k.mu.Unlock()
			return
		}
		k.mu.Lock()
		k.failed++
		k.mu.Unlock()
	}
	// Not known: nothing is asked of it.
	k.mu.Lock()
	delete(k.current, name)
	k.mu.Unlock()
}

// Watch follows all config maps, from where it was when a stream ends, and is never told that this is too long ago.
func (k *kube) Watch(ctx context.Context) {
	for ; ctx.Err() == nil; k.watches++ {
		k.mu.Lock()
		from := k.last
		k.mu.Unlock()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s?watch=1&allowWatchBookmarks=true&resourceVersion=%d", k.URL, configMaps, from), nil)
		if err != nil {
			k.t.Error(err)
			return
		}
		if answer, err := k.Client.Do(r); err == nil {
			k.follow(answer.Body)
			answer.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (k *kube) follow(stream io.Reader) {
	for d := json.NewDecoder(stream); ; {
		var e struct {
			Type   string    `json:"type"`
			Object configMap `json:"object"`
		}
		if d.Decode(&e) != nil {
			return // it has ended
		}
		k.mu.Lock()
		at := e.Object.Revision()
		switch {
		case e.Type == "ERROR":
			k.t.Errorf("the watch at %d is told of an error", k.last)
		case at < k.last || at == k.last && e.Type != "BOOKMARK":
			k.t.Errorf("the watch tells %s of %s at %d, after %d", e.Type, e.Object.Metadata.Name, at, k.last)
		case e.Type == "DELETED":
			k.deleted[e.Object.Metadata.Name] = at
		case e.Type != "BOOKMARK":
			k.events[at] = e.Object
		}
		k.last = max(k.last, at)
		k.mu.Unlock()
		if e.Type == "ERROR" {
			return
		}
	}
}

// Check compares what was acknowledged with what is there, and with what the watch told.
func (k *kube) Check() {
	k.t.Helper()
	var highest int64
	for at := range k.acked {
		highest = max(highest, at)
	}
	rig.Eventually(k.t, rig.Soon, "the watch sees the last write", func(context.Context) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.last < highest {
			return fmt.Errorf("it is at %d of %d", k.last, highest)
		}
		return nil
	})
	var list struct {
		Items []configMap `json:"items"`
	}
	rig.Eventually(k.t, rig.Soon, "a list", func(ctx context.Context) error { return k.request(ctx, http.MethodGet, configMaps, nil, &list) })
	there := map[string]configMap{}
	for _, m := range list.Items {
		there[m.Metadata.Name] = m
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, m := range k.current {
		if is := there[name]; is.Metadata.ResourceVersion != m.Metadata.ResourceVersion || is.Data["value"] != m.Data["value"] {
			k.t.Errorf("acknowledged: %+v; there is %+v", m, is)
		}
	}
	for at, m := range k.acked {
		if told, known := k.events[at]; !known || told.Metadata.Name != m.Metadata.Name || told.Data["value"] != m.Data["value"] {
			k.t.Errorf("acknowledged at %d: %+v; the watch told %+v", at, m, told)
		}
	}
	k.t.Logf("%d writes acknowledged, %d attempts failed, the longest write took %s; the watch told %d changes and %d deletions and was opened %d times",
		k.writes, k.failed, k.longest.Round(time.Millisecond), len(k.events), len(k.deleted), k.watches)
	if k.longest > longestWrite {
		k.t.Errorf("a write took %s with its retries", k.longest)
	}
}

// Kubernetes' API server lives on the cluster while that goes up over two lines and down again: no write of its clients is lost,
// none fails for longer than a retry, and its watch goes on without being told to list again.
func TestAPIServerAcrossVersions(t *testing.T) {
	if !*withAPIServer {
		t.Skip("kube-apiserver is built for minutes: -e2e.apiserver")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V35, TLS: true})
	cfg := testkube.Config{Dir: c.Dir}
	for _, h := range c.Hosts {
		cfg.Endpoints = append(cfg.Endpoints, h.ClientURL())
	}
	access := c.Access(c.Host(1)).Etcd
	cfg.Certs = &testetcd.Certs{CA: access.CA, Cert: access.Cert, Key: access.Key}
	server, err := testkube.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	k := &kube{Server: server, t: t, acked: map[int64]configMap{}, current: map[string]configMap{}, events: map[int64]configMap{}, deleted: map[string]int64{}}
	rig.Eventually(t, rig.Soon, "a first list", func(ctx context.Context) error {
		var list configMap
		err := k.request(ctx, http.MethodGet, configMaps, nil, &list)
		k.last = list.Revision()
		return err
	})
	stopWatch, stop := k.begin()
	defer stopWatch()
	defer stop()
	for _, version := range []string{testetcd.V37, testetcd.V35} {
		c.To(version, 1, 2, 3)
		k.More(20)
	}
	stop()
	k.Check()
}

// begin starts three writers and the watch.
func (k *kube) begin() (stopWatch, stop func()) {
	var writers, watch sync.WaitGroup
	writing, endWriting := context.WithCancel(context.Background())
	watching, endWatching := context.WithCancel(context.Background())
	watch.Go(func() { k.Watch(watching) })
	for i := range 3 {
		writers.Go(func() { k.Run(writing, i) })
	}
	return func() { endWatching(); watch.Wait() }, func() { endWriting(); writers.Wait() }
}

// More waits for more acknowledged writes.
func (k *kube) More(n int) {
	k.t.Helper()
	count := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.writes
	}
	from := count()
	rig.Eventually(k.t, rig.Soon, fmt.Sprintf("%d more writes", n), func(context.Context) error {
		if now := count(); now < from+n {
			return fmt.Errorf("%d were", now-from)
		}
		return nil
	})
}
