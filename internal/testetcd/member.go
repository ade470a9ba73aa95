package testetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Member is one etcd process and what it was started with. Release and Args
// count from the next start on.
type Member struct {
	Name      string
	ClientURL string
	PeerURL   string
	DataDir   string
	LogFile   string // of all its runs
	Release   Release
	Args      []string

	certs   *Certs
	token   string
	state   string // --initial-cluster-state
	initial string // --initial-cluster
	process *process
}

// process is one run of a member. ended is closed once cmd has been waited for.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Endpoint is the client address as host:port.
func (m *Member) Endpoint() string { return hostPort(m.ClientURL) }

// Running reports whether the process has been started and not been seen to end.
func (m *Member) Running() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.ended:
		return false
	default:
		return true
	}
}

// PID of the present run, or of the last one; 0 before the first.
func (m *Member) PID() int {
	if m.process == nil {
		return 0
	}
	return m.process.cmd.Process.Pid
}

// Ended is closed when the present run is over; nil before the first.
func (m *Member) Ended() <-chan struct{} {
	if m.process == nil {
		return nil
	}
	return m.process.ended
}

// LogTail returns the last lines of the log.
func (m *Member) LogTail(lines int) string {
	content, err := os.ReadFile(m.LogFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (m *Member) join(state, initial string) { m.state, m.initial = state, initial }

// CommandLine is how the member is started, as a person would.
func (m *Member) CommandLine() []string {
	args := []string{
		m.Release.Etcd,
		"--name", m.Name,
		"--data-dir", m.DataDir,
		"--listen-client-urls", m.ClientURL,
		"--advertise-client-urls", m.ClientURL,
		"--listen-peer-urls", m.PeerURL,
		"--initial-advertise-peer-urls", m.PeerURL,
		"--initial-cluster", m.initial,
		"--initial-cluster-state", m.state,
		"--initial-cluster-token", m.token,
	}
	if m.certs != nil {
		for _, side := range []string{"", "peer-"} {
			args = append(args,
				"--"+side+"client-cert-auth",
				"--"+side+"trusted-ca-file", m.certs.CA,
				"--"+side+"cert-file", m.certs.Cert,
				"--"+side+"key-file", m.certs.Key)
		}
	}
	return append(args, m.Args...)
}

// start runs the member; its output goes to a file, never to a pipe of ours.
func (m *Member) start() error {
	log, err := os.OpenFile(m.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	line := m.CommandLine()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = filepath.Dir(m.LogFile)
	cmd.Env = plainEnvironment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithTest()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start member %s: %w", m.Name, err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	m.process = p
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended stays in cmd.ProcessState
	}()
	return nil
}

// plainEnvironment is ours without what would reconfigure etcd behind the flags.
func plainEnvironment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "ETCD_") && !strings.HasPrefix(pair, "ETCDCTL_") {
			env = append(env, pair)
		}
	}
	return env
}

func (m *Member) kill(ctx context.Context, sig syscall.Signal) error {
	if !m.Running() {
		return fmt.Errorf("signal member %s: it is not running", m.Name)
	}
	p := m.process
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal member %s: %w", m.Name, err)
	}
	if sig == syscall.SIGSTOP || sig == syscall.SIGCONT {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("member %s is still there after %v: %w", m.Name, sig, ctx.Err())
	}
}

// waitFor asks the member for path until it answers 200. There is no event to
// wait for from outside of etcd, so it asks every 20 ms; the end of the process
// ends the wait at once, with the end of its log.
func (m *Member) waitFor(ctx context.Context, path string) error {
	transport := &http.Transport{DisableKeepAlives: true}
	if m.certs != nil {
		transport.TLSClientConfig = m.certs.Config()
	}
	client := &http.Client{Transport: transport, Timeout: 3 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = get(ctx, client, m.ClientURL+path); last == nil {
			return nil
		}
		select {
		case <-m.Ended():
			return fmt.Errorf("the process ended (%s); the end of its log:\n%s", m.process.cmd.ProcessState, m.LogTail(20))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 512))
		return errors.Join(fmt.Errorf("%s: %s: %s", url, response.Status, bytes.TrimSpace(body)), err)
	}
	return nil
}
