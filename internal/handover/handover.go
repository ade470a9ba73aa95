// Package handover has an etcd that something else runs on this machine go on as the member of this host: a unit, a static pod,
// or a process that somebody started. It looks, prepares what package adoption knows, ends the old process, and brings its data
// to where the agent takes them over (docs/adr/016-adoption.md).
//
// What must always hold:
//
//   - The old process is ended only when every other voter was seen to be up right before, by a list that went through raft.
//   - Nothing is deleted. What is moved is told, with the way back.
//   - Each step may have been taken before; after an interruption the next run finds what the last one has left.
package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/setup"
	"golang.org/x/sys/unix"
)

// Options say which etcd.
type Options struct {
	From      string   // its data directory
	DataDir   string   // of the agent, on the same file system
	CertsDir  string   // with ca.crt, server.{crt,key} and peer.{crt,key}; empty: where the process has its authority
	PKIDir    string   // of the agent's authorities
	PKIGiven  bool     // a host of the cluster gives them
	First     bool     // no host of ours may have another member of it: two records of one cluster would never become one
	Manifests string   // directory of the kubelet's static pods
	Endpoints []string // client URLs; none: those of the process
	Access    console.EtcdAccess
	// Has is an error where the agent would not find a release.
	Has func(ctx context.Context, version string) error
	// StopUnit ends a unit, and has it not start any more.
	StopUnit func(ctx context.Context, unit string) error
	Say      func(string)
}

// Etcd is the one that was found. It implements [setup.Existing].
type Etcd struct {
	opt     Options
	request adoption.Request
	plan    *adoption.Plan
	spec    cluster.Spec
	config  etcd.Config
	voters  string // why it may not be stopped now; empty: it may
	release string // why the agent could not start it; empty: it could
	taken   string // which other member is in the hands of an agent already; empty: none
	runs    string // what runs it, for people; empty: it does not run
}

// ErrNone says that there is nothing to take over.
var ErrNone = errors.New("no etcd to take over")

// Look finds the etcd, and changes nothing. What keeps it from being taken over is in its checks.
//
// Errors: *setup.Error with ErrNone where not even its member can be told.
func Look(ctx context.Context, o Options) (*Etcd, error) {
	e := &Etcd{opt: o, request: adoption.Request{From: o.From, DataDir: o.DataDir, CertsDir: o.CertsDir, PKIDir: o.PKIDir, PKIGiven: o.PKIGiven, Held: runtime.CheckUnlocked}}
	r := &e.request
	var err error
	if r.Manifest, err = adoption.ManifestOf(o.Manifests, o.From); err != nil {
		return nil, err
	}
	held := runtime.CheckUnlocked(o.From)
	if errors.Is(held, unix.ENOTDIR) { // the file that keeps it from starting
		held = nil
	}
	if _, runs := errors.AsType[*runtime.LockedError](held); held != nil && !runs {
		return nil, e.nothing("whether it runs cannot be seen: "+held.Error(), "look at that directory and its disk")
	}
	r.Flags, r.FlagsUnknown = adoption.FlagsOf(held)
	e.runs = e.runner(held)
	if r.CertsDir == "" {
		r.CertsDir = e.certsDir()
	}
	if e.runs != "" || len(o.Endpoints) > 0 {
		if err := e.ask(ctx); err != nil {
			return nil, e.nothing(err.Error(), "name the etcd's client certificate by --cacert, --cert and --key, and its client URLs by --etcd-endpoints")
		}
	}
	if e.plan, err = adoption.Look(ctx, *r, nil); err != nil {
		return nil, err
	}
	if e.plan.Host == "" || e.plan.Version() == "" {
		return nil, e.nothing(strings.Join(e.plan.Missing, "; "), "start it, and name its data directory by --etcd-data-dir")
	}
	if e.spec, err = e.plan.Spec(); err != nil {
		return nil, e.nothing(err.Error(), "bring it to such a cluster first")
	}
	if err := o.Has(ctx, e.plan.Version()); err != nil && !e.plan.Moved() {
		e.release = err.Error()
	}
	e.voters = e.obstacle(ctx)
	if o.First && !e.plan.Moved() {
		e.taken = e.takenOver(ctx)
	}
	return e, nil
}

func (e *Etcd) nothing(why, advice string) error {
	return &setup.Error{Problem: "the etcd of " + e.opt.From + " cannot be taken over: " + why, Err: ErrNone, Advice: advice}
}

// runner is what runs it.
func (e *Etcd) runner(held error) string {
	locked, is := errors.AsType[*runtime.LockedError](held)
	switch {
	case !is:
		return ""
	case e.request.Manifest != "":
		return "the static pod of " + e.request.Manifest
	case locked.PID == 0:
		return "a process that cannot be seen from here"
	}
	if e.request.Unit = adoption.UnitOf(locked.PID); e.request.Unit != "" {
		return e.request.Unit
	}
	return fmt.Sprintf("process %d", locked.PID)
}

// flag is a setting of the process; empty: it has none.
func (e *Etcd) flag(name string) string {
	for _, f := range e.request.Flags {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// certsDir is where its authority lies, as the process or an earlier run's agent knows.
func (e *Etcd) certsDir() string {
	if ca := e.flag("trusted-ca-file"); filepath.IsAbs(ca) {
		return filepath.Dir(ca)
	}
	if e.request.Flags != nil {
		return "" // it runs without TLS
	}
	for _, usual := range []string{"/etc/etcd/pki", "/etc/kubernetes/pki/etcd"} {
		if _, err := os.Stat(filepath.Join(usual, "server.crt")); err == nil {
			return usual
		}
	}
	return ""
}

// viewTries is how often the list is asked for, each viewAgain, while raft has no leader: an election takes two seconds.
const (
	viewTries = 4
	viewAgain = time.Second
)

// WentBack tells whether an etcd that was handed over to the agent of a data directory has its data again, since somebody went
// back.
func WentBack(from, dataDir string) bool {
	info, err := os.Lstat(filepath.Join(from, "member"))
	return err == nil && info.IsDir() && adoption.Begun(dataDir)
}

// Settings implements setup.Existing.
func (e *Etcd) Settings() setup.Settings {
	s := setup.Settings{}
	set := func(flag, value string) {
		if value != "" {
			s[envfile.OfFlag(flag)] = value
		}
	}
	urls := e.plan.URLs
	set("host-id", string(e.plan.Host))
	set("data-dir", e.opt.DataDir)
	set("client-urls", strings.Join(urls.Client, ","))
	set("peer-urls", strings.Join(urls.Peer, ","))
	set("quarantine-client-urls", strings.Join(urls.Quarantine, ","))
	set("listen-metrics-urls", e.plan.Kept.MetricsURLs)
	if len(urls.Peer) > 0 {
		if u, err := url.Parse(urls.Peer[0]); err == nil {
			set("address", u.Hostname())
			if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() { // several hosts of one machine
				set("etcd-address", u.Hostname())
			}
		}
		if strings.HasPrefix(urls.Peer[0], "http:") {
			set("etcd-insecure", "true")
		}
	}
	if e.plan.Kept.Quota > 0 { // also where the agent has not read the spec yet
		s["ETCD_QUOTA_BACKEND_BYTES"] = strconv.FormatInt(e.plan.Kept.Quota, 10)
	}
	return s
}

// Release implements setup.Existing.
func (e *Etcd) Release() cluster.Version { return e.spec.EtcdVersion }

// Members implements setup.Existing.
func (e *Etcd) Members() int { return e.spec.MemberCount }

// Prepared implements setup.Existing: a data directory of the agent holds nothing, or what [Etcd.Prepare] writes.
func (e *Etcd) Prepared() bool {
	entries, err := os.ReadDir(e.opt.DataDir)
	if err != nil {
		return false
	}
	known := []string{"myid", "state", "data", "pki", "etcdadm", "kept", "logs", "refused.json", "adopted-settings.json"}
	if e.opt.DataDir == e.opt.From {
		known = append(known, "member")
	}
	for _, entry := range entries {
		if !setup.IsNothing(entry.Name()) && !slices.Contains(known, entry.Name()) {
			return false
		}
	}
	below, err := filepath.Glob(filepath.Join(e.opt.DataDir, "data", "*"))
	return err == nil && !slices.ContainsFunc(below, func(dir string) bool { return filepath.Base(dir) != e.plan.Token })
}

// Checks implements setup.Existing.
func (e *Etcd) Checks() []setup.Check {
	found := strings.Join(e.plan.Facts, "; ")
	is := setup.Check{Name: "etcd", Standing: setup.Good, Found: found}
	if e.runs != "" {
		is.Found += "; " + e.runs + " runs it"
	}
	checks := []setup.Check{is}
	add := func(name string, standing setup.Standing, found, remedy string) {
		checks = append(checks, setup.Check{Name: name, Standing: standing, Found: found, Remedy: remedy})
	}
	for _, m := range e.plan.Missing {
		add("etcd", setup.Refused, m, "mend that, and run the command again")
	}
	switch {
	case e.voters != "":
		add("voters", setup.Refused, e.voters, "bring every member up first: while this one is handed over, the others are the quorum")
	case e.runs != "" && e.Members() < 3:
		add("voters", setup.Warned, fmt.Sprintf("the cluster has %d, and does not serve while this one is started anew", e.Members()), "")
	case e.runs != "":
		add("voters", setup.Good, fmt.Sprintf("all %d are up", e.Members()), "")
	}
	if e.taken != "" {
		add("other hosts", setup.Refused, e.taken, "on that host: etcdadm token create; and here the command that it prints, with --adopt")
	}
	if e.release != "" {
		add("release", setup.Refused, e.release, "etcdadm download "+e.plan.Version())
	}
	if why := e.otherDisk(); why != "" {
		add("file system", setup.Refused, why, "give the agent a directory there: --data-dir "+e.opt.From)
	}
	if left := e.plan.Kept.LeftOut; len(left) > 0 {
		add("settings", setup.Warned, "not carried over: "+strings.Join(left, " | "), "")
	}
	return checks
}

// otherDisk: the data are moved by a rename.
func (e *Etcd) otherDisk() string {
	var from, to unix.Stat_t
	dir := e.opt.DataDir
	for unix.Stat(dir, &to) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	if e.plan.Moved() || unix.Stat(e.opt.From, &from) != nil || from.Dev == to.Dev {
		return ""
	}
	return fmt.Sprintf("%s and %s are on two file systems", e.opt.From, e.opt.DataDir)
}

// Among implements setup.Existing.
func (e *Etcd) Among(ctx context.Context, endpoints []string) error {
	var hosts []string
	for _, n := range e.plan.Peers() {
		if u, err := url.Parse(n); err == nil {
			hosts = append(hosts, addresses(ctx, u.Hostname())...)
		}
	}
	for _, one := range endpoints {
		if host, _, err := net.SplitHostPort(one); err == nil && slices.ContainsFunc(addresses(ctx, host), func(a string) bool { return slices.Contains(hosts, a) }) {
			return nil
		}
	}
	return &setup.Error{Problem: "the etcd here is of another cluster than the one that is joined: none of its members is at " + strings.Join(endpoints, ", "), Err: setup.ErrOther,
		Advice: "join by the address that a member has in etcdctl member list; the first host of this cluster is taken over by etcdadm init --adopt"}
}

// resolves bounds the look-up of a name.
const resolves = 5 * time.Second

// addresses are a host's name, and what it stands for where that can be looked up.
func addresses(ctx context.Context, host string) []string {
	if net.ParseIP(host) != nil {
		return []string{host}
	}
	ctx, cancel := context.WithTimeout(ctx, resolves)
	defer cancel()
	found, _ := new(net.Resolver).LookupHost(ctx, host) // by its name it may still be the same
	return append(found, host)
}

// Authorities implements setup.Existing. Where etcd has none, the agent's are made.
func (e *Etcd) Authorities(dir string) error {
	if e.request.CertsDir == "" {
		return nil
	}
	return adoption.CopyAuthorities(e.request.CertsDir, dir)
}

// Mark implements setup.Existing.
func (e *Etcd) Mark(ctx context.Context, f *control.Folder) error { return e.plan.Mark(ctx, f) }

// Prepare implements setup.Existing.
func (e *Etcd) Prepare() error { return e.plan.PrepareHost() }

// Move implements setup.Existing.
func (e *Etcd) Move() error { return e.plan.Move() }

// Words implements setup.Existing.
func (e *Etcd) Words() (prepare, stop, move string) {
	stop = "etcd does not run, so that nothing has to be stopped"
	switch {
	case e.request.Manifest != "":
		stop = fmt.Sprintf("move %s to %s, so that the kubelet ends etcd", e.request.Manifest, manifestAside(e.request.Manifest))
	case e.runs != "":
		stop = "stop " + e.runs + ", so that it stays stopped"
	}
	return "write beside the data what the member is: " + e.opt.DataDir, stop, fmt.Sprintf("move %s to %s", filepath.Join(e.opt.From, "member"), e.member())
}

func (e *Etcd) member() string {
	return filepath.Join(e.opt.DataDir, "data", e.plan.Token, "member")
}

// Back implements setup.Existing.
func (e *Etcd) Back() []string {
	guard, data := filepath.Join(e.opt.From, "member"), e.member()
	lines := []string{"systemctl disable --now etcdadm", "mv " + guard + " " + guard + ".guard", "mv " + data + " " + guard}
	switch kept := e.plan.Kept; {
	case kept.Manifest != "":
		return append(lines, "mv "+manifestAside(kept.Manifest)+" "+kept.Manifest)
	case kept.Unit != "":
		return append(lines, "systemctl enable --now "+kept.Unit)
	}
	return append(lines, "start etcd as before")
}
