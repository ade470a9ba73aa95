package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Ports of every host, above the base port.
const (
	portClient = iota
	portPeer
	portDaemon
	portQuarantine
	portMetrics
	ports
)

// Host is one daemon of the playground.
type Host struct {
	Name   string
	Dir    string // data directory
	Log    string
	Client string // URL
	Daemon string // host:port

	path string
	args []string
	pid  atomic.Int64
}

// PID is the daemon's; 0 while it does not run.
func (h *Host) PID() int { return int(h.pid.Load()) }

func (p *playground) newHost(n int) *Host {
	address := fmt.Sprintf("127.0.0.%d", n)
	at := func(port int) string { return net.JoinHostPort(address, strconv.Itoa(p.o.BasePort+port)) }
	scheme := "https://"
	if p.o.Insecure {
		scheme = "http://"
	}
	dir := filepath.Join(p.dir, "hosts", strconv.Itoa(n))
	h := &Host{
		Name: fmt.Sprintf("host-%d", n), Dir: dir,
		Log: filepath.Join(p.dir, "hosts", fmt.Sprintf("%d.log", n)), Client: scheme + at(portClient), Daemon: at(portDaemon),
		path: p.o.Path,
	}
	h.args = append(append([]string{}, p.o.Args...), p.store,
		"--cluster-name="+ClusterName, "--host-id="+h.Name, "--address="+address, "--etcd-address="+address,
		"--data-dir="+dir, "--grpc-port="+strconv.Itoa(p.o.BasePort+portDaemon),
		"--client-urls="+h.Client, "--peer-urls="+scheme+at(portPeer), "--quarantine-client-urls="+scheme+at(portQuarantine),
		"--etcd-manager-metrics-port="+strconv.Itoa(p.o.BasePort+portMetrics),
		"--pki-dir="+filepath.Join(p.dir, "pki"), "--dead-after=15s", "--discovery-poll-interval=5s",
	)
	if p.o.Insecure {
		h.args = append(h.args, "--insecure", "--etcd-insecure")
	}
	if r := p.o.Releases; r != nil && len(r.Dirs) > 0 {
		h.args = append(h.args, "--release-dir="+strings.Join(r.Dirs, ","))
	}
	return h
}

// checkPorts finds out whether the ports can be had. Where an earlier
// playground was killed its etcds may still hold theirs, to be adopted.
func (p *playground) checkPorts(hosts int, again bool) error {
	if p.o.BasePort < 1 || p.o.BasePort+ports > 65536 {
		return &Mistake{fmt.Sprintf("--base-port=%d leaves no room for %d ports", p.o.BasePort, ports), "choose one between 1024 and 60000"}
	}
	for n := 1; n <= hosts; n++ {
		for port := range ports {
			if again && port != portDaemon && port != portMetrics {
				continue
			}
			at := net.JoinHostPort(fmt.Sprintf("127.0.0.%d", n), strconv.Itoa(p.o.BasePort+port))
			l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
			switch {
			case errors.Is(err, syscall.EADDRINUSE):
				return &Mistake{"another program listens on " + at, fmt.Sprintf("end it, or choose other ports: --base-port %d", (p.o.BasePort+10000)%50000+2000)}
			case err != nil:
				return &Mistake{fmt.Sprintf("cannot listen on %s: %v", at, err), "the playground needs the loopback addresses 127.0.0.1 to 127.0.0." + strconv.Itoa(hosts)}
			}
			l.Close()
		}
	}
	return nil
}

// keeper starts daemons and starts them again, as an init system would.
type keeper struct {
	say  func(event, text string)
	quit chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex // guards hosts, and say
	hosts []*Host
}

const (
	restartAfter = time.Second      // as an init system does
	stopWithin   = 25 * time.Second // a daemon ends etcd first
	killWithin   = 5 * time.Second  // of SIGKILL; a process that waits for a disk takes longer
)

func newKeeper(say func(event, text string)) *keeper {
	return &keeper{say: say, quit: make(chan struct{})}
}

func (k *keeper) tell(event, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.say(event, text)
}

// start runs a host's daemon until stopAll.
func (k *keeper) start(h *Host) error {
	if err := os.MkdirAll(filepath.Dir(h.Log), 0o700); err != nil {
		return err
	}
	k.mu.Lock()
	k.hosts = append(k.hosts, h)
	k.mu.Unlock()
	started := make(chan error, 1)
	k.all.Go(func() { k.keep(h, started) })
	return <-started
}

func (k *keeper) keep(h *Host, started chan<- error) {
	// The daemon is told when this very thread ends, so that one that was
	// killed leaves no daemons behind; the thread must be ours alone.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	for first := true; ; first = false {
		err := k.run(h, func() {
			if first {
				started <- nil
			}
		})
		if first && h.PID() == 0 && err != nil && !isExit(err) {
			started <- fmt.Errorf("start the daemon of %s: %w", h.Name, err)
			return
		}
		h.pid.Store(0)
		select {
		case <-k.quit:
			return
		default:
		}
		k.tell("daemon", fmt.Sprintf("the daemon of %s ended (%v), and is started again; its log: %s", h.Name, err, h.Log))
		select {
		case <-k.quit:
			return
		case <-time.After(restartAfter):
		}
	}
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}

func (k *keeper) run(h *Host, up func()) error {
	log, err := os.OpenFile(h.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(h.path, h.args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Its own group: Ctrl-C is for the playground, which ends the daemons.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	if err := cmd.Start(); err != nil {
		return err
	}
	h.pid.Store(int64(cmd.Process.Pid))
	select {
	case <-k.quit: // stopAll may have looked for it before it was there
		_ = cmd.Process.Signal(syscall.SIGINT)
	default:
	}
	up()
	return cmd.Wait()
}

// stopAll ends all daemons, which end their etcds, and waits for them.
func (k *keeper) stopAll() {
	close(k.quit)
	k.signal(syscall.SIGINT)
	done := make(chan struct{})
	go func() { k.all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stopWithin):
		k.tell("daemon", "some daemons did not end in time and are killed")
		k.signal(syscall.SIGKILL)
		select {
		case <-done:
		case <-time.After(killWithin):
			k.tell("daemon", "some daemons do not end although they are killed: their disk does not answer; they end when it does")
		}
	}
}

func (k *keeper) signal(s syscall.Signal) {
	k.mu.Lock()
	hosts := k.hosts
	k.mu.Unlock()
	for _, h := range hosts {
		if pid := h.PID(); pid > 0 {
			_ = syscall.Kill(pid, s) // our own child, not yet waited for
		}
	}
}
