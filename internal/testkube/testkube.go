// Package testkube gives tests a real kube-apiserver on loopback, on an etcd that they bring along or one of its own (Run), machines
// with a real kubelet, and cert-manager.
//
// As with testetcd, the program is built at most once per machine, into a cache that lies outside of the checkout and changes
// only by rename; and the server never outlives its test.
package testkube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
)

// Version of Kubernetes.
const Version = "v1.36.3"

const (
	// buildDeadline bounds the build from cold caches: six minutes of processor time.
	buildDeadline = 25 * time.Minute
	// startDeadline bounds the wait for a server to be ready: about ten seconds on an idle machine.
	startDeadline = 3 * time.Minute
)

// The programs that can be built. Each is pinned by a module of its own.
const (
	APIServer   = "kube-apiserver"
	Kubelet     = "kubelet"
	CertManager = "cert-manager" // its controllers, without the webhook, for issuers of kind CA and SelfSigned
)

// CertManagerVersion is that of cert-manager, and of its definitions.
const CertManagerVersion = "v1.21.2"

// made says of which version a program is, what is compiled, and what is written into it.
func made(name string) (version, main, flags string) {
	if name == CertManager {
		return CertManagerVersion, ".", "-s -w"
	}
	const in = " -X k8s.io/component-base/version."
	parts := strings.Split(strings.TrimPrefix(Version, "v"), ".")
	return Version, "k8s.io/kubernetes/cmd/" + name, "-s -w" + in + "gitVersion=" + Version + in + "gitMajor=" + parts[0] + in + "gitMinor=" + parts[1]
}

// path is where a program is, once it is built.
func path(name string) (string, error) {
	releases, err := testetcd.CacheDir()
	if err != nil {
		return "", err
	}
	version, _, _ := made(name)
	return filepath.Join(filepath.Dir(releases), "test-kube", fmt.Sprintf("%s-%s-%s-%s", name, version, runtime.GOOS, runtime.GOARCH), name), nil
}

// Built is the path of a program where this machine has it; empty: it has to be built first.
func Built(name string) string {
	program, err := path(name)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(program); err != nil {
		return ""
	}
	return program
}

// Fetch returns the path of a program, building it when this machine does not have it yet.
func Fetch(ctx context.Context, name string) (string, error) {
	program, err := path(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := fetch(ctx, program); err != nil {
		version, _, _ := made(name)
		return "", fmt.Errorf("build %s %s: %w", name, version, err)
	}
	return program, nil
}

func fetch(ctx context.Context, program string) error {
	place := filepath.Dir(program)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	unlock, err := testetcd.LockFile(ctx, filepath.Join(filepath.Dir(place), "."+filepath.Base(place)+".lock"))
	if err != nil {
		return fmt.Errorf("wait for another build: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil { // built by whoever held the lock
		return nil
	}
	source, err := moduleDir(ctx, filepath.Base(program))
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(place), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	_, compiled, flags := made(filepath.Base(program))
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags", flags, "-o", filepath.Join(fresh, filepath.Base(program)), compiled)
	cmd.Dir = source
	cmd.Env = append(testenv.Outside(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.WaitDelay = 5 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", errors.Join(err, ctx.Err()), bytes.TrimSpace(said))
	}
	return os.Rename(fresh, place)
}

// moduleDir finds the directory that pins the program. The path that the compiler recorded is right except under -trimpath; then
// the go command knows.
func moduleDir(ctx context.Context, name string) (string, error) {
	below := filepath.Join("modules", name)
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Join(filepath.Dir(file), below)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	said, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(said))), "internal", "testkube", below), nil
}

// Config says on which etcd a server runs.
type Config struct {
	Endpoints []string        // client URLs
	Certs     *testetcd.Certs // for etcd; nil: no TLS
	Dir       string          // for certificates and the log
	// RBAC has it go by roles; the server's own client may do everything. Else everybody may who shows a certificate.
	RBAC bool
	// Audit is a policy by which the server writes down what it is asked for, one event in a line of JSON; empty: it does not.
	Audit string
}

// Server is a kube-apiserver that trusts whoever shows a certificate of its own authority.
type Server struct {
	URL       string
	Client    *http.Client // without a deadline: requests have contexts
	Log       string
	CA        string // file with the authority of its certificate
	Cert, Key string // files by which one may do everything
	Audit     string // file with what it was asked for, by Config.Audit

	program string
	args    []string
	cmd     *exec.Cmd
	ended   chan struct{}
	port    *testetcd.Port
}

// Start runs a server until Close, and returns when it is ready.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	program, err := Fetch(ctx, APIServer)
	if err != nil {
		return nil, err
	}
	own, err := testetcd.NewCerts(filepath.Join(cfg.Dir, "apiserver"))
	if err != nil {
		return nil, err
	}
	port, err := testetcd.ReservePort()
	if err != nil {
		return nil, err
	}
	s := &Server{URL: fmt.Sprintf("https://127.0.0.1:%d", port.Number), Log: filepath.Join(cfg.Dir, "kube-apiserver.log"), CA: own.CA, Cert: own.Cert, Key: own.Key, Audit: auditLog(cfg), port: port,
		program: program, args: arguments(cfg, own, port.Number),
		Client: &http.Client{Transport: &http.Transport{TLSClientConfig: own.Config(), ForceAttemptHTTP2: true}}}
	err = os.WriteFile(auditPolicy(cfg), []byte(cfg.Audit), 0o600)
	if cfg.RBAC {
		err = errors.Join(err, s.roles(cfg, own))
	}
	if err != nil {
		port.Release()
		return nil, err
	}
	if err := s.Restart(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Restart runs a server again that was killed, at the same address, and returns when it is ready.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.run(s.program, s.args); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		s.Kill()
		return fmt.Errorf("start kube-apiserver: %w; its log is %s", err, s.Log)
	}
	return nil
}

func arguments(cfg Config, own *testetcd.Certs, port int) []string {
	args := []string{
		"--etcd-servers=" + strings.Join(cfg.Endpoints, ","),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + own.Cert, "--tls-private-key-file=" + own.Key, "--client-ca-file=" + own.CA,
		"--cert-dir=" + filepath.Dir(own.Cert),
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + own.Cert, "--service-account-signing-key-file=" + own.Key,
		"--service-cluster-ip-range=10.96.0.0/12",
	}
	if cfg.RBAC {
		args = append(args, "--authorization-mode=RBAC", "--token-auth-file="+tokensFile(cfg))
	} else {
		args = append(args, "--authorization-mode=AlwaysAllow")
	}
	if cfg.Audit != "" {
		args = append(args, "--audit-policy-file="+auditPolicy(cfg), "--audit-log-path="+auditLog(cfg))
	}
	if c := cfg.Certs; c != nil {
		args = append(args, "--etcd-cafile="+c.CA, "--etcd-certfile="+c.Cert, "--etcd-keyfile="+c.Key)
	}
	return args
}

func auditPolicy(cfg Config) string { return filepath.Join(cfg.Dir, "audit-policy.yaml") }

func auditLog(cfg Config) string { return filepath.Join(cfg.Dir, "audit.log") }

func (s *Server) run(program string, args []string) error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := exec.Command(program, args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithTest()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended stays in cmd.ProcessState
	}()
	return nil
}

// ready waits for the server to be ready.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for {
		err := s.ask(ctx, "/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("it ended: %s", s.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("it does not become ready: %w", err)
		case <-time.After(100 * time.Millisecond): // readiness gives no event
		}
	}
}

func (s *Server) ask(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// Kill ends the server's process.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it has nothing to finish, and may have ended
	<-s.ended
}

// Close ends the server.
func (s *Server) Close() {
	s.Kill()
	s.Client.CloseIdleConnections()
	s.port.Release()
}
