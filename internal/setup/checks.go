package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
	"golang.org/x/sys/unix"
)

// Standing is how a check came out.
type Standing string

// The standings. Only Refused keeps a machine from being set up.
const (
	Good    Standing = "ok"
	Warned  Standing = "warn"
	Refused Standing = "refused"
)

// Check is one thing that was looked at.
type Check struct {
	Name     string   `json:"check"`
	Standing Standing `json:"standing"`
	Found    string   `json:"found"`
	Remedy   string   `json:"remedy,omitempty"`
}

// Report is what would be done, and what was found before.
type Report struct {
	Checks []Check  `json:"checks"`
	Steps  []string `json:"steps"`
	// Aside is what would be set aside.
	Aside []Aside `json:"aside,omitempty"`
}

// Err is nil unless a check refuses: then it is a sentence with the first of them, and how many more there are.
func (r Report) Err() error {
	var refused []Check
	for _, c := range r.Checks {
		if c.Standing == Refused {
			refused = append(refused, c)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	words := refused[0].Name + ": " + refused[0].Found
	if n := len(refused) - 1; n > 0 {
		words += fmt.Sprintf(" (and %d more checks refuse)", n)
	}
	return &RefusedError{Checks: refused, words: words}
}

// RefusedError says which checks keep a machine from being set up. Nothing was changed.
type RefusedError struct {
	Checks []Check
	words  string
}

func (e *RefusedError) Error() string { return e.words }

// Hint is the remedy of the first of them.
func (e *RefusedError) Hint() string { return e.Checks[0].Remedy }

func good(name, format string, args ...any) Check {
	return Check{Name: name, Standing: Good, Found: fmt.Sprintf(format, args...)}
}

func refuse(name, remedy, format string, args ...any) Check {
	return Check{Name: name, Standing: Refused, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

func warn(name, remedy, format string, args ...any) Check {
	return Check{Name: name, Standing: Warned, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}

// machineChecks are about this machine alone. running says that the agent runs here: then its ports are its own. left says that
// an etcd has the ports, and is to go on as the agent's.
func (m *Machine) machineChecks(ctx context.Context, s Settings, data Check, running, left bool) []Check {
	checks := []Check{m.Paths.checkUser(), m.checkService(ctx), checkAddress(ctx, s.Flag("address"))}
	checks = append(checks, checkPorts(ctx, s, running, left)...)
	checks = append(append(checks, data), m.checkDescription()...)
	dir := existing(s.Flag("data-dir"))
	return append(checks, checkRoom(ctx, dir), checkDisk(ctx, dir, running))
}

func (p Paths) checkUser() Check {
	if p.at() == "/" && os.Geteuid() != 0 {
		return refuse("user", "run it as root", "not root")
	}
	return good("user", "may write below %s", p.at())
}

func (m *Machine) checkService(ctx context.Context) Check {
	if err := m.Service.Check(ctx); err != nil {
		remedy := "run it on a machine that systemd has booted, or start etcdadm auto by hand"
		if m.pod != nil {
			remedy = "start the kubelet first (kubeadm init phase kubelet-start), or leave --static-pod out"
		}
		return refuse("service manager", remedy, "%v", err)
	}
	return good("service manager", "runs")
}

// resolveTimeout is what a resolver has, with a second server after five seconds.
const resolveTimeout = 8 * time.Second

// The ports of a host, as flags name them.
var listeners = []struct{ name, flag, usual string }{
	{"port of the agent", "", ""},
	{"port of etcd's clients", "client-urls", "https://__address__:4001"},
	{"port of etcd's members", "peer-urls", "https://__address__:2380"},
	{"port of etcd in quarantine", "quarantine-client-urls", "https://__address__:8001"},
}

// checkPorts: they are free, or have who has them here: the agent that runs, or an etcd that an agent has left, which
// the next one adopts.
func checkPorts(ctx context.Context, s Settings, running, left bool) (checks []Check) {
	for _, l := range listeners {
		bind, ports := s.Flag("etcd-address"), []string{}
		if l.flag == "" {
			bind, ports = s.Flag("address"), []string{cmp.Or(s.Flag("grpc-port"), usualPort)}
		} else {
			for _, raw := range strings.Split(cmp.Or(s.Flag(l.flag), l.usual), ",") {
				if u, err := url.Parse(raw); err == nil {
					ports = append(ports, u.Port())
				}
			}
		}
		for _, port := range ports {
			c := checkPort(ctx, l.name, bind, port, running)
			if c.Standing == Refused && left && l.flag != "" {
				c = good(l.name, "%s is taken, as by the etcd here that goes on as the agent's", port)
			}
			checks = append(checks, c)
		}
	}
	if port := s.Flag("etcd-manager-metrics-port"); port != "" {
		checks = append(checks, checkPort(ctx, "port of the agent's metrics", cmp.Or(s.Flag("metrics-address"), s.Flag("address")), port, running))
	}
	return checks
}

func checkPort(ctx context.Context, name, bind, port string, running bool) Check {
	if running {
		return good(name, "%s, which the running agent has", port)
	}
	if net.ParseIP(bind) == nil {
		bind = "" // a name, or nothing said
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(bind, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return refuse(name, "stop the program that listens there (ss -ltnp sport = :"+port+"); an etcd that is to go on here is taken over with --adopt", "%s is taken", port)
	case err != nil:
		return warn(name, "", "%s could not be tried: %v", port, err)
	}
	l.Close()
	return good(name, "%s is free", port)
}

// checkDescription: what the service manager is to read is not there, or is ours.
func (m *Machine) checkDescription() []Check {
	name, remedy := "unit", "move it away, or keep what you need of it in a drop-in: systemctl edit etcdadm"
	ours := unit.Ours
	if m.pod != nil {
		name, remedy, ours = "static pod", "move it away: the kubelet ends that pod", staticpod.Ours
	}
	path := m.file()
	data, err := regular.Read(path, regular.SmallSize)
	var c Check
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c = good(name, "%s, which will be made", path)
	case err != nil:
		c = refuse(name, "look at that file", "%v", err)
	case !ours(data):
		c = refuse(name, remedy, "%s was not made by etcdadm", path)
	default:
		c = good(name, "%s is etcdadm's", path)
	}
	if m.pod == nil {
		return []Check{c}
	}
	return []Check{c, m.checkPods()}
}

// checkPods: the kubelet has its directory of static pods, and runs no other etcd by it.
func (m *Machine) checkPods() Check {
	const name = "other static pods"
	dir := filepath.Dir(m.file())
	switch found, err := staticpod.Etcds(dir); {
	case err != nil:
		return refuse(name, "look at that directory", "%v", err)
	case !exists(dir):
		return refuse(name, "name the kubelet's directory (staticPodPath in its configuration): --manifests-dir", "%s does not exist", dir)
	case len(found) > 0:
		return refuse(name, "take it over with etcdadm init --adopt, or join --adopt, without --static-pod; if nobody needs it: mv "+found[0]+" "+filepath.Dir(dir)+"/", "%s runs another etcd on this host", found[0])
	}
	return good(name, "none in %s runs etcd", dir)
}

// existing is the nearest directory above path that is there.
func existing(path string) string {
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

const (
	// roomLeast is for a database of etcd's default quota, 2 GiB, with nothing beside it.
	roomLeast = 2 << 30
	// roomWanted leaves room for that database, its log, a snapshot for a new member and a restore beside it.
	roomWanted = 8 << 30
	// diskAnswers is how long the disk is waited for before a probe of it.
	diskAnswers = 5 * time.Second
)

func checkRoom(ctx context.Context, dir string) Check {
	const name = "room"
	st, err := bounded.Do(ctx, dir, diskAnswers, func() (unix.Statfs_t, error) {
		var st unix.Statfs_t
		return st, unix.Statfs(dir, &st)
	})
	if err != nil {
		return warn(name, "", "%s: %v", dir, err)
	}
	free := int64(st.Bavail) * st.Bsize //nolint:unconvert // the types are other ones elsewhere
	words := fmt.Sprintf("%.1f GiB are free in %s", float64(free)/(1<<30), dir)
	switch {
	case free < roomLeast:
		return warn(name, "use a larger disk: etcd's database alone may have 2 GiB", "%s", words)
	case free < roomWanted:
		return warn(name, "8 GiB leave room for a restore beside the data", "%s", words)
	}
	return good(name, "%s", words)
}

const (
	// probeFor is how long the disk is written to: long enough to see its slow moments.
	probeFor = 2 * time.Second
	// probePrefix begins the name of the file.
	probePrefix = ".etcdadm-probe-"
	// probeMost bounds the writes on a disk that is fast.
	probeMost = 1000
	// probeSlow is what etcd's documentation asks of a disk: 99 of 100 syncs within 10 ms.
	probeSlow = 10 * time.Millisecond
	// probeBytes is about an entry of etcd's log.
	probeBytes = 2300
)

// checkDisk measures how long the disk takes to sync a small write, as etcd does before it acknowledges one.
func checkDisk(ctx context.Context, dir string, running bool) Check {
	const name = "disk"
	if running {
		return good(name, "not measured: etcd runs on it")
	}
	took, err := bounded.Do(ctx, dir, probeFor+diskAnswers, func() ([]time.Duration, error) { return syncs(ctx, dir) })
	if err != nil || len(took) == 0 {
		return warn(name, "", "its speed could not be measured: %v", err)
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	words := fmt.Sprintf("99 of 100 syncs within %s (%d in %s)", max(p99.Round(10*time.Microsecond), 10*time.Microsecond), len(took), dir)
	if p99 > probeSlow {
		return warn(name, "etcd wants 10ms: use a faster disk (SSD), or one of its own; on a slow one leaders change and requests time out", "%s", words)
	}
	return good(name, "%s", words)
}

// syncs ends with the context: nobody waits for it any more, and its file is not to be left.
func syncs(ctx context.Context, dir string) ([]time.Duration, error) {
	if left, err := filepath.Glob(filepath.Join(dir, probePrefix+"*")); err == nil { // of probes that were killed
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
	f, err := os.CreateTemp(dir, probePrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	data := make([]byte, probeBytes)
	var took []time.Duration
	for began := time.Now(); time.Since(began) < probeFor && len(took) < probeMost && ctx.Err() == nil; {
		if _, err := f.Write(data); err != nil {
			return nil, err
		}
		at := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

// spanWords is a time as people read it.
func spanWords(d time.Duration) string { return duration.Format(d.Round(time.Second)) }
