package etcdscenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/sim/fakeetcd"
	"etcdadm.io/internal/testetcd"
)

// realHosts is how many hosts a scenario may name.
const realHosts = 9

// realWorld plays on real processes on loopback. Peers reach each other through
// a proxy in front of each, which a cut closes.
type realWorld struct {
	ctx     context.Context
	release cluster.Version
	binary  string
	dir     string
	hosts   map[string]*realHost
	ports   []*testetcd.Port
	net     *proxies
}

// realHost is one host with its disk.
type realHost struct {
	name      string
	clientURL string
	listenURL string // for peers, behind the proxy
	proxy     *proxy
	data, log string
	flags     []string // of the last first start
	cmd       *exec.Cmd
	ended     chan struct{}
	killed    bool
	logged    int64 // size of the log when the process was started
	driver    *etcd.Client
	client    *clientv3.Client
}

func newRealWorld(ctx context.Context, dir, version string) (*realWorld, error) {
	release, err := testetcd.Fetch(ctx, version)
	if err != nil {
		return nil, err
	}
	w := &realWorld{
		ctx: ctx, release: cluster.MustVersion(version), binary: release.Etcd, dir: dir,
		hosts: map[string]*realHost{}, net: newProxies(),
	}
	for i := 1; i <= realHosts; i++ {
		name := fmt.Sprintf("h%d", i)
		err := w.addHost(name)
		for range 4 { // somebody who reserves nothing took the port meanwhile
			if !errors.Is(err, syscall.EADDRINUSE) {
				break
			}
			err = w.addHost(name)
		}
		if err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *realWorld) addHost(name string) error {
	var numbers [3]int
	for i := range numbers {
		p, err := testetcd.ReservePort()
		if err != nil {
			return err
		}
		w.ports = append(w.ports, p)
		numbers[i] = p.Number
	}
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	h := &realHost{
		name:      name,
		clientURL: fmt.Sprintf("http://127.0.0.1:%d", numbers[0]),
		listenURL: fmt.Sprintf("http://127.0.0.1:%d", numbers[1]),
		data:      filepath.Join(dir, "data"),
		log:       filepath.Join(dir, "etcd.log"),
	}
	var err error
	if h.proxy, err = w.net.listen(name, numbers[2], numbers[1]); err != nil {
		return err
	}
	w.hosts[name] = h
	return nil
}

func (w *realWorld) close() {
	for _, h := range w.hosts {
		h.end()
		if h.driver != nil {
			h.driver.Close()
		}
		if h.client != nil {
			h.client.Close()
		}
	}
	w.net.close()
	for _, p := range w.ports {
		p.Release()
	}
}

func (w *realWorld) version() cluster.Version { return w.release }

func (w *realWorld) peerURL(h string) string { return w.hosts[h].proxy.url }

func (w *realWorld) start(name string, initial []cluster.Member, founding bool, args []string) error {
	h := w.hosts[name]
	if initial != nil {
		var pairs []string
		for _, m := range initial {
			for _, u := range m.PeerURLs {
				pairs = append(pairs, m.Name+"="+u)
			}
		}
		state := "existing"
		if founding {
			state = "new"
		}
		h.flags = []string{"--initial-cluster", strings.Join(pairs, ","), "--initial-cluster-state", state}
	}
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	h.logged = info.Size()
	cmd := exec.Command(w.binary, slices.Concat([]string{
		"--name", name, "--data-dir", h.data, "--initial-cluster-token", token,
		"--listen-client-urls", h.clientURL, "--advertise-client-urls", h.clientURL,
		"--listen-peer-urls", h.listenURL, "--initial-advertise-peer-urls", h.proxy.url,
	}, h.flags, args)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=1"}
	cmd.SysProcAttr = dieWithTest()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	ended := make(chan struct{})
	h.cmd, h.ended, h.killed = cmd, ended, false
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is read from its log
	}()
	return nil
}

func (w *realWorld) running(h string) bool { return w.hosts[h].running() }

func (h *realHost) running() bool {
	if h.cmd == nil {
		return false
	}
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

func (w *realWorld) exit(name string) string {
	h := w.hosts[name]
	if h.killed {
		return "killed"
	}
	content, err := os.ReadFile(h.log)
	if err != nil {
		return err.Error()
	}
	said := exitClass(string(content[h.logged:]))
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	return said
}

// end kills the process and waits for its end.
func (h *realHost) end() {
	if h.running() {
		h.killed = true
		_ = h.cmd.Process.Signal(syscall.SIGCONT) // it may be paused, or just over
		_ = h.cmd.Process.Kill()
		<-h.ended
	}
}

func (w *realWorld) kill(h string) { w.hosts[h].end() }

func (w *realWorld) stop(name string) {
	h := w.hosts[name]
	if !h.running() {
		return
	}
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.ended:
	case <-time.After(10 * time.Second):
		h.end()
	}
}

func (w *realWorld) pause(name string, on bool) {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	_ = w.hosts[name].cmd.Process.Signal(sig)
}

func (w *realWorld) wipe(name string) {
	h := w.hosts[name]
	_ = os.Rename(h.data, fmt.Sprintf("%s.wiped-%d", h.data, time.Now().UnixNano()))
}

func (w *realWorld) cut(h string, on bool) { w.net.cut(h, on) }

func (w *realWorld) member(name string) member.Member {
	h := w.hosts[name]
	if h.driver == nil {
		d, err := etcd.New(etcd.Config{Endpoints: []string{h.clientURL}})
		if err != nil {
			panic(err)
		}
		h.driver = d
	}
	w.learn(name)
	return h.driver
}

// learn tells the proxies which member is at a host, once it is known.
func (w *realWorld) learn(name string) {
	w.net.name(w.hosts[name].proxy.url, name)
}

func (w *realWorld) clusterVersion(name string) string {
	ctx, cancel := context.WithTimeout(w.ctx, callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.hosts[name].clientURL+"/version", http.NoBody)
	if err != nil {
		return err.Error()
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var v struct {
		Cluster string `json:"etcdcluster"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		return err.Error()
	}
	return v.Cluster
}

func (w *realWorld) kv(name string) kv {
	h := w.hosts[name]
	if h.client == nil {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{h.clientURL}, Logger: zap.NewNop()})
		if err != nil {
			panic(err)
		}
		h.client = c
	}
	return realKV{h.client}
}

// realKV is etcd's own client, so that keys are written as clients write them.
type realKV struct{ c *clientv3.Client }

// ended turns the client's errors into those of the driver.
func ended(mutating bool, err error) error {
	for _, e := range []struct{ theirs, ours error }{
		{rpctypes.ErrNoSpace, etcd.ErrNoSpace}, {rpctypes.ErrCorrupt, etcd.ErrCorrupt},
		{rpctypes.ErrLeaseExist, fakeetcd.ErrLeaseExists}, {rpctypes.ErrLeaseNotFound, fakeetcd.ErrLeaseNotFound},
	} {
		if errors.Is(err, e.theirs) {
			return e.ours
		}
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "not supported for learner"):
		return etcd.ErrLearner
	case mutating:
		return fmt.Errorf("%w: %w", etcd.ErrUnknownOutcome, err)
	}
	return fmt.Errorf("%w: %w", etcd.ErrNoAnswer, err)
}

func (k realKV) put(ctx context.Context, key, value string, lease int64) error {
	var opts []clientv3.OpOption
	if lease != 0 {
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(lease)))
	}
	_, err := k.c.Put(ctx, key, value, opts...)
	return ended(true, err)
}

func (k realKV) get(ctx context.Context, key string, local bool) (string, error) {
	var opts []clientv3.OpOption
	if local {
		opts = append(opts, clientv3.WithSerializable())
	}
	resp, err := k.c.Get(ctx, key, opts...)
	if err != nil || len(resp.Kvs) == 0 {
		return "", ended(false, err)
	}
	return string(resp.Kvs[0].Value), nil
}

func (k realKV) grant(ctx context.Context, id, ttl int64) (int64, error) {
	resp, err := etcdserverpb.NewLeaseClient(k.c.ActiveConnection()).
		LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil {
		return 0, ended(true, rpctypes.Error(err))
	}
	return resp.TTL, nil
}

func (k realKV) keepAlive(ctx context.Context, id int64) (int64, error) {
	resp, err := k.c.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, ended(false, err)
	}
	return resp.TTL, nil
}

func (k realKV) revoke(ctx context.Context, id int64) error {
	_, err := k.c.Revoke(ctx, clientv3.LeaseID(id))
	return ended(true, err)
}

func (k realKV) alarm(ctx context.Context, kind string, m cluster.MemberID, on bool) error {
	req := &etcdserverpb.AlarmRequest{
		MemberID: uint64(m), Action: etcdserverpb.AlarmRequest_DEACTIVATE,
		Alarm: etcdserverpb.AlarmType(etcdserverpb.AlarmType_value[kind]),
	}
	if on {
		req.Action = etcdserverpb.AlarmRequest_ACTIVATE
	}
	_, err := etcdserverpb.NewMaintenanceClient(k.c.ActiveConnection()).Alarm(ctx, req)
	return ended(true, err)
}
