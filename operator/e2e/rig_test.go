package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/testkube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	operatorNamespace = "etcdadm-system"
	operatorAccount   = "etcdadm-operator"
	// auditPolicy has the API server write down what the operator asks for.
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["system:serviceaccount:` + operatorNamespace + `:` + operatorAccount + `"]}
- {level: None}
`
)

// rig is an API server of a test's own, with roles, that notes what the operator asks for; operators are their program, by the
// account and the rights that their manifests give.
type rig struct {
	t      *testing.T
	dir    string
	server *testkube.Server
	c      client.Client          // reads what it has cached
	by     string                 // the URL by which operators reach the API server
	trust  string                 // file with the authority of that
	sick   atomic.Pointer[string] // a namespace of which operators are answered nothing
	hung   atomic.Int64           // what they were not answered
	build  sync.Once
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if testkube.Built(testkube.APIServer) == "" {
		t.Skipf("no %s %s on this machine: go run ./internal/testkube/cmd/fetch", testkube.APIServer, testkube.Version)
	}
	g := &rig{t: t, dir: t.TempDir()}
	etcd := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 1})
	var err error
	g.server, err = testkube.Start(t.Context(), testkube.Config{Endpoints: etcd.Endpoints(), Dir: g.dir, RBAC: true, Audit: auditPolicy})
	must(t, err)
	t.Cleanup(g.server.Close)
	config := &rest.Config{Host: g.server.URL, Transport: g.server.Client.Transport, QPS: -1}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	must(t, install(t.Context(), direct))
	must(t, direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}))
	for _, file := range rights {
		data, err := os.ReadFile(file)
		must(t, err)
		for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
			o := &unstructured.Unstructured{}
			must(t, yaml.Unmarshal(part, &o.Object))
			must(t, direct.Create(t.Context(), o))
		}
	}
	near, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	must(t, err)
	go func() { _ = near.Start(t.Context()) }() // until the test ends
	g.c, err = client.New(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: near}})
	must(t, err)
	g.between()
	return g
}

// between stands between operators and API server, and leaves what is asked of the sick namespace unanswered.
func (g *rig) between() {
	t := g.t
	ca, err := os.ReadFile(g.server.CA)
	must(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	target, err := url.Parse(g.server.URL)
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true},
		ErrorLog:  log.New(io.Discard, "", 0), // operators end, and with them what they wait for
	}
	certs, err := testetcd.NewCerts(filepath.Join(g.dir, "between"))
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ns := g.sick.Load(); ns != nil && strings.Contains(r.URL.Path, "/namespaces/"+*ns+"/") {
			g.hung.Add(1)
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.ServeTLS(l, certs.Cert, certs.Key) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	g.by, g.trust = "https://"+l.Addr().String(), certs.CA
}

// program is an operator that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	stats int // port of its metrics
	asks  int // port of its probes
	log   string
	once  sync.Once
}

// starts runs an operator until the test ends, or it is stopped. The first one needs the API server, for the account of all.
func (g *rig) starts() *program {
	t := g.t
	t.Helper()
	file, kubeconfig := filepath.Join(g.dir, "etcdadm-operator"), filepath.Join(g.dir, "kubeconfig")
	g.build.Do(func() {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", file, "./cmd/etcdadm-operator")
		build.Dir, build.Env = "..", append(testenv.Outside(), "GOWORK=off") // as the tests are built, so that little is left to do
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		account := filepath.Join(g.dir, "account")
		must(t, g.server.Token(t.Context(), operatorNamespace, operatorAccount, account))
		must(t, os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
			"users: [{name: u, user: {tokenFile: "+account+"/token}}]\nclusters: [{name: c, cluster: {server: \""+g.by+"\", certificate-authority: "+g.trust+"}}]\n"), 0o600))
	})
	p := &program{t: t, stats: testetcd.FreePort(t), asks: testetcd.FreePort(t)}
	p.log = filepath.Join(g.dir, fmt.Sprintf("operator-%d.log", p.stats))
	p.cmd = exec.Command(file, "--image=localhost/etcdadm:1", "--alpha=ClientIssuer,Adopt", "--issuers=Issuer/*", "--kubeconfig="+kubeconfig, "--leader-election-namespace="+operatorNamespace,
		"--metrics-bind-address=127.0.0.1:"+strconv.Itoa(p.stats), "--health-probe-bind-address=127.0.0.1:"+strconv.Itoa(p.asks))
	out, err := os.Create(p.log)
	must(t, err)
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		p.stop()
		if said, err := os.ReadFile(p.log); err == nil && t.Failed() {
			t.Logf("the operator:\n%s", said[max(0, len(said)-4000):])
		}
	})
	return p
}

// stop ends an operator in order.
func (p *program) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		p.waits()
	})
}

// ends waits until an operator ended by itself.
func (p *program) ends() { p.once.Do(p.waits) }

func (p *program) waits() {
	late := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended stays in cmd.ProcessState
}

// probed is what an operator answers to a probe, as the kubelet sends it.
func (p *program) probed(path string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", p.asks, path), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != want {
			return errors.New(answer.Status)
		}
		return nil
	}
}

// looks are how often each loop looked at something since the operator began.
func (p *program) looks(ctx context.Context) map[string]int {
	out := map[string]int{}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", p.stats), nil)
	must(p.t, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return out
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		rest, is := strings.CutPrefix(lines.Text(), `controller_runtime_reconcile_total{controller="`)
		if loop, rest, found := strings.Cut(rest, `"`); is && found {
			n, _ := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
			out[loop] += int(n)
		}
	}
	return out
}

// asked counts what operators asked for since then, as a role would have it, by the API server's own log. Nothing may be refused
// to them.
func (g *rig) asked(from int64) map[string]int {
	g.t.Helper()
	events, err := os.Open(g.server.Audit)
	must(g.t, err)
	defer events.Close()
	_, err = events.Seek(from, io.SeekStart)
	must(g.t, err)
	counts := map[string]int{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // of the last line the rest may be on its way
			return counts
		}
		var event struct {
			Verb      string
			ObjectRef *struct{ APIGroup, Resource, Subresource string }
			Response  struct{ Code int } `json:"responseStatus"`
		}
		must(g.t, json.Unmarshal(line, &event))
		if event.ObjectRef == nil { // what kinds there are
			continue
		}
		what := event.Verb + " " + event.ObjectRef.APIGroup + "/" + event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		if counts[what]++; event.Response.Code == http.StatusForbidden {
			g.t.Errorf("the operator may not %s", what)
		}
	}
}
