package plan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
)

// fault changes the world:
//
//	hosts H… [releases=(V,…)]     new machines with empty disks
//	spec N V [hosts=(H,…)] [dead-after=D] [auto-recover-after=D] [hold] [pause] | none | unreadable
//	advance D                     time passes, looks are taken
//	sleep D                       time passes unwatched, or the clock jumps
//	leader H                      another host leads
//	store silent|answers|lost|unconditional|predecessor|joining|older|of-another-cluster
//	down|up H…                    the machine is off, on
//	gap [busy|refused] H… [at=OP] [late=yes]  the daemon does not answer, or waits for its disk, or carries an op out; the member runs on
//	damaged H…                    its promise is one that no leader may bring
//	unpromised H…                 the daemon answers and gives no promise
//	mend H…                       undoes gap, unpromised, dead, stuck, auth, problem, skew
//	dead H…                       the process does not run any more
//	hung H…                       the process runs and answers nothing; a restart helps
//	deaf H…                       the member has its part in raft, and answers its host nothing
//	strange H…                    it has another authority for peers than the others, and its member answers nothing
//	other-authority H…            the same, and nothing comes of it yet
//	damage H…                     etcd ends at each start, since it cannot read its data
//	vanish H…                     the member's data is gone under its process, which serves from memory
//	balks H…                      the host refuses every start, and says nothing of it before
//	stuck H…                      the member does not catch up
//	reading H…                    the log of the member is still being read
//	wipe H [as=NEW]               the disk is empty again; as: under a new identity at the old address
//	refuses H GENERATION          the host has promised to refuse a generation, and all below it
//	lose-data H                   the member's data is gone, the rest of the disk is not
//	refused H                     etcd ends at the member's first start, before it writes a log
//	took H                        etcd took another ID than the host started it for, and the host gave it up
//	readdress H                   the host comes back at another address
//	plain H…, secure H…           the daemons are restarted for an etcd without TLS, or with it
//	swap H1 H2                    two hosts come back with each other's address
//	same-url H1 H2                the first says that it listens where the second does
//	options H… [value]            members started now would get other options
//	variables H… values=(N:V,…)   the daemon's environment has variables for etcd
//	settings H…                   its etcd was adopted and runs with other settings
//	problem H…                    the host says that it is unfit
//	foreign H…                    data that nothing accounts for lies on the host
//	taken H…                      its member is one that was taken over from etcd-manager, and is in no intent
//	theirs H…                     etcd-manager's member lies on the host, and is run by somebody else
//	theirs-ended H…               the host took it over
//	stranger H                    the host runs a member of another cluster
//	skew H D                      its clock is off
//	auth H…                       etcd's authentication is on, without a credential
//	raft H                        the member of H leads raft
//	by-hand remove H              a person removed a member with etcdctl
//	forget-intent H…              the host keeps no intent
//	v2-log H…                     the member's log holds requests of version 2 of the API
//	cannot-run H V                release V ends at its start on the host
//	balks-at H OPTION             the member ends at its start with the option; the host goes back by itself
//	daemon-restarts H             the host's daemon is another one, which does not remember what failed
//	installed H V…                the releases that the host has
//	authorities H…                the host has the cluster's first authorities
//	slow-authorities H…           the host follows no rotation of them until it is mended
//	stale-leaves H…, keyless H…   it follows, and its leaves stay as they are, or no key comes to it
//	bundles H… add=N drop=N leaves=N  somebody renewed files of authorities and certificates there, of which no record tells
//	old-etcd-trust H…             nobody knows what the member was started with
//	disagree|agree                the members do not agree on another release line for now
func (w *world) fault(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var args []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			args = append(args, a.Key)
		}
	}
	switch d.Cmd {
	case "hosts":
		releases := values(d, "releases", "3.5.35", "3.6.16", "3.7.3")
		for _, id := range args {
			w.addHost(cluster.HostID(id), releases...)
		}
		return ""
	case "spec":
		return w.setSpec(t, d, args)
	case "advance":
		return w.pass(t, d, args[0])
	case "sleep":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(d)
		return ""
	case "leader":
		w.lead(cluster.HostID(args[0]))
		return ""
	case "store":
		return w.setStore(t, d, args[0])
	case "gap":
		kind := string(cluster.GapUnreachable)
		if args[0] == "busy" || args[0] == "refused" {
			kind, args = args[0], args[1:]
		}
		for _, id := range args {
			h := w.host(cluster.HostID(id))
			h.gap, h.at, h.late = kind, cluster.OpPromise, d.HasArg("late")
			if a, ok := d.Arg("at"); ok {
				h.at = cluster.OpKind(a.Vals[0])
			}
		}
		return ""
	case "by-hand":
		return w.byHand(t, d, args)
	case "disagree", "agree":
		for _, c := range w.clusters {
			c.sticks = d.Cmd == "disagree"
		}
		return ""
	}
	if w.upkeepFault(d, args) || w.pruneFault(d, args) {
		return ""
	}
	return w.hostFault(t, d, args)
}

// value is the one value of an argument; empty: it is not given.
func value(d *datadriven.TestData, key string) string {
	if a, ok := d.Arg(key); ok {
		return a.Vals[0]
	}
	return ""
}

// values are the versions of an argument, or the default.
func values(d *datadriven.TestData, key string, def ...string) []cluster.Version {
	if a, ok := d.Arg(key); ok {
		def = a.Vals
	}
	var out []cluster.Version
	for _, s := range def {
		out = append(out, cluster.MustVersion(s))
	}
	return out
}

func (w *world) setSpec(t *testing.T, d *datadriven.TestData, args []string) string {
	w.specGap, w.standing = "", nil
	switch args[0] {
	case "none":
		w.spec = nil
		return ""
	case "unreadable":
		w.spec, w.specGap = nil, "the spec in the store is not JSON: unexpected end of input"
		if !d.HasArg("settings-unreadable") { // else nobody knows what is beside it
			w.standing = &cluster.Standing{}
		}
		return ""
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	s := &cluster.Spec{MemberCount: n, EtcdVersion: cluster.MustVersion(args[1]), Hold: d.HasArg("hold")}
	if a, ok := d.Arg("hosts"); ok {
		for _, h := range a.Vals {
			s.Hosts = append(s.Hosts, cluster.HostID(h))
		}
	}
	if a, ok := d.Arg("dead-after"); ok {
		s.DeadAfter, _ = time.ParseDuration(a.Vals[0])
	}
	if a, ok := d.Arg("auto-recover-after"); ok {
		s.AutoRecoverAfter, _ = time.ParseDuration(a.Vals[0])
	}
	s.PauseBeforeLast = d.HasArg("pause")
	if d.HasArg("no-backup") {
		s.NoBackup = s.EtcdVersion.String()
	}
	if d.HasArg("accept-outage") {
		s.AcceptOutage = cluster.Consent(s.EtcdVersion, w.now)
	}
	if a, ok := d.Arg("accept-loss"); ok {
		s.AcceptLoss = s.EtcdVersion.String() + " " + a.Vals[0]
	}
	w.spec = s
	if d.HasArg("refused") { // as the store has it, and nobody knows another
		w.spec, w.specGap, w.standing = nil, s.Validate().Error(), s.Standing()
	}
	return ""
}

func (w *world) pass(t *testing.T, d *datadriven.TestData, s string) string {
	step, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	w.advance(step)
	return ""
}

func (w *world) setStore(t *testing.T, d *datadriven.TestData, what string) string {
	w.store.intent = w.store.intent.Clone()
	switch what {
	case "silent":
		w.store.silent = true
	case "answers":
		w.store.silent = false
	case "lost":
		w.store.intent, w.store.marker = nil, false
	case "unconditional":
		w.store.unconditional = true
	case "predecessor":
		w.store.intent, w.store.marker, w.store.joining = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}, true, false
	case "joining": // as `etcdadm adopt --join` leaves it before its first member
		w.store.intent, w.store.marker, w.store.joining = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}, true, true
	case "older":
		w.store.intent.Write--
		w.store.intent.Voters = nil
	case "of-another-cluster":
		w.store.intent.Name = "other"
	case "another-nonce":
		w.store.intent.Nonce = "another"
	default:
		d.Fatalf(t, "unknown: store %s", what)
	}
	return ""
}

func (w *world) byHand(t *testing.T, d *datadriven.TestData, args []string) string {
	h := w.host(cluster.HostID(args[1]))
	c := w.clusterOf(h)
	switch args[0] {
	case "remove":
		for i, m := range c.members {
			if m.ID == h.Local.Member {
				c.members = append(c.members[:i:i], c.members[i+1:]...)
				return ""
			}
		}
	}
	d.Fatalf(t, "by-hand %s failed", strings.Join(args, " "))
	return ""
}

func (w *world) hostFault(t *testing.T, d *datadriven.TestData, args []string) string {
	t.Helper()
	var hosts []*worldHost
	for _, id := range args {
		h := w.host(cluster.HostID(id))
		if h == nil {
			break
		}
		hosts = append(hosts, h)
	}
	if len(hosts) == 0 {
		d.Fatalf(t, "%s names no host", d.Cmd)
	}
	rest := args[len(hosts):]
	if d.Cmd == "same-url" {
		hosts[0].URLs = hosts[1].URLs
		return ""
	}
	if d.Cmd == "swap" {
		a, b := hosts[0], hosts[1]
		a.URLs, b.URLs = b.URLs, a.URLs
		a.Local.URLs, b.Local.URLs = a.URLs, b.URLs
		return ""
	}
	switch d.Cmd {
	case "cannot-run":
		hosts[0].cannotRun = rest
		return ""
	case "balks-at":
		hosts[0].balksAt = strings.Join(rest, "")
		return ""
	case "daemon-restarts": // it forgets what failed, and asks for what the spec says
		if h := hosts[0]; h.FailedOptions != nil {
			h.Options, h.FailedOptions = h.FailedOptions, nil
		}
		return ""
	case "installed":
		hosts[0].Releases = nil
		for _, r := range rest {
			hosts[0].Releases = append(hosts[0].Releases, cluster.MustVersion(r))
		}
		return ""
	}
	for _, h := range hosts {
		if !w.one(h, d, rest) {
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
	}
	return ""
}

func (w *world) one(h *worldHost, d *datadriven.TestData, rest []string) bool {
	switch d.Cmd {
	case "v2-log":
		h.v2 = true
	case "down":
		h.down, h.ended = true, w.logOf(h)
		h.why = ""
		if a, ok := d.Arg("why"); ok { // odds, heard or refused
			h.why = a.Vals[0]
		}
	case "up":
		if h.down {
			h.readAuthorities()
		}
		h.down = false
	case "authorities":
		h.giveAuthorities()
	case "slow-authorities":
		h.slowCA = true
	case "stale-leaves":
		h.staleCA = true
	case "keyless":
		h.keylessCA = true
	case "bundles":
		h.changeBundles(value(d, "add"), value(d, "drop"), value(d, "leaves"))
	case "old-etcd-trust":
		h.Process.Trusts = nil
	case "unpromised":
		h.unpromised = true
	case "mend":
		h.gap, h.unpromised, h.dead, h.stuck, h.auth, h.Problems, h.skew, h.jammed = "", false, false, false, false, nil, 0, false
		h.deaf, h.strange, h.slowCA = false, "", false
		h.staleCA, h.keylessCA = false, false
		h.reading = false
		if c := w.clusterOf(h); c != nil {
			c.alarms = nil
		}
	case "takes-no-pauses":
		h.TakesPauses = false
	case "pause-fails":
		h.PauseRefused = &cluster.PauseRefused{ID: rest[0], Why: "no space left on device"}
	case "dead":
		h.dead = true
	case "hung":
		h.hung = true
	case "deaf":
		h.deaf = true
	case "strange":
		h.deaf, h.strange = true, "BB:BB"
	case "other-authority":
		h.strange = "BB:BB"
	case "damage":
		h.dead, h.damaged = true, true
	case "vanish":
		h.vanished = true
	case "balks":
		h.balks = true
	case "stuck":
		h.stuck = true
	case "reading":
		h.reading = true
	case "held":
		h.held = true
	case "wipe":
		as := ""
		if a, ok := d.Arg("as"); ok {
			as = a.Vals[0]
		}
		w.wipe(h, cluster.HostID(as))
	case "refused":
		h.Local.State, h.Local.HasData = cluster.MemberStarting, false
	case "took":
		h.Local.State, h.Local.Run, h.Local.Took = cluster.MemberRemoved, false, cluster.MemberID(0xdead)
	case "gave-up":
		for _, a := range rest {
			id, err := strconv.ParseUint(a, 16, 64)
			if err != nil {
				return false
			}
			h.GaveUp = append(h.GaveUp, cluster.MemberID(id))
		}
	case "refuses":
		h.LowestGeneration, _ = strconv.ParseUint(rest[0], 10, 64)
		h.LowestGeneration++
	case "lose-data":
		h.Local.HasData = false
	case "readdress":
		h.address++
		h.setURLs()
		h.Local.URLs = h.URLs
	case "plain": // etcd without TLS, from its next start on
		h.plain = true
		h.setURLs()
	case "secure": // the daemon is restarted so that etcd is to have TLS
		h.plain = false
		h.setURLs()
		h.Process.Differs = []string{"--cert-file", sight.PeerAuthority}
	case "options":
		h.Options, h.FailedOptions = rest, nil
	case "variables":
		var environ []string
		if given, ok := d.Arg("values"); ok {
			for _, pair := range given.Vals {
				environ = append(environ, strings.Replace(pair, ":", "=", 1))
			}
		}
		h.LeftVariables = cluster.LeftVariables(environ)
	case "releases":
		h.Releases = nil
		for _, r := range rest {
			h.Releases = append(h.Releases, cluster.MustVersion(r))
		}
	case "problem":
		h.Problems = []cluster.Problem{{Code: "disk-full", Sentence: "the disk is full", Hint: "make room on it", Unfit: true}}
	case "foreign":
		h.Foreign = []cluster.SetAside{{Dir: "/var/lib/etcd/old", Reason: "no record names it"}}
	case "taken":
		h.Local.Generation, h.Local.Nonce, h.Local.Adopted = 0, "", true
	case "theirs":
		h.Predecessor = &cluster.Predecessor{Token: h.Local.Token, Cluster: h.Local.Cluster, Member: h.Local.Member, Held: true,
			Waits: "an etcd that this daemon did not start runs on it", Hint: "stop etcd-manager on this host"}
		h.Foreign = []cluster.SetAside{{Dir: "/var/lib/etcd/data/" + h.Local.Token, Reason: "etcd-manager wrote it"}}
		h.Local = cluster.LocalMember{}
	case "invited":
		h.Predecessor = &cluster.Predecessor{Token: "adopted", Cluster: 1, Waits: "no member was added for this host yet", Hint: "run etcdadm adopt --join again on this host"}
	case "theirs-ended":
		p := h.Predecessor
		h.Local = cluster.LocalMember{State: cluster.MemberStarted, Token: p.Token, Cluster: p.Cluster, Member: p.Member, Run: true, Adopted: true,
			HasData: true, URLs: h.URLs, Version: cluster.MustVersion("3.6.16")}
		h.Predecessor, h.Foreign = nil, nil
	case "stranger":
		w.stranger(h)
	case "skew":
		h.skew, _ = time.ParseDuration(rest[0])
	case "auth":
		h.auth = true
	case "raft":
		w.clusterOf(h).leader = h.Local.Member
	case "settings":
		h.Process.Differs = []string{"ETCD_QUOTA_BACKEND_BYTES"}
	case "damaged":
		h.gap, h.promised = string(cluster.GapRefused), cluster.Fence{Number: cluster.MaxFence + 1, Host: "x"}
	case "forget-intent":
		w.handed = nil
		h.Intent = nil
	default:
		return false
	}
	return true
}

// wipe empties the disk: member, promise and memory are gone.
func (w *world) wipe(h *worldHost, as cluster.HostID) {
	w.minted++
	fresh := cluster.HostState{
		Host: h.Host, Disk: cluster.DiskID(fmt.Sprintf("disk-%d", w.minted)), Cluster: h.Cluster, Releases: h.Releases, URLs: h.URLs, Address: h.Address, PruneAfter: h.PruneAfter, TakesPauses: h.TakesPauses, KeepsBackups: h.KeepsBackups,
	}
	if as != "" {
		fresh.Host = as
	}
	*h = worldHost{HostState: fresh, address: h.address, down: h.down}
	if w.leader == "" || as != "" && w.host(w.leader) == nil {
		w.lead(h.Host)
	}
}

// stranger has the host run the only member of a cluster that is not ours.
func (w *world) stranger(h *worldHost) {
	c := &worldCluster{id: 0xdead, generation: 1, term: 9, index: 1000, members: []cluster.Member{{ID: 0xbad, Name: string(h.Host), PeerURLs: h.URLs.Peer}}}
	w.clusters = append(w.clusters, c)
	h.Local = cluster.LocalMember{State: cluster.MemberStarted, Generation: 1, Nonce: "theirs", Cluster: c.id, Member: 0xbad, Run: true, Version: h.Releases[0], URLs: h.URLs, HasData: true}
	h.Process = cluster.Process{State: cluster.ProcessRunning, PID: 77}
}

// TestJoiningUnread: what cannot be read is no word that hosts are to join a cluster elsewhere.
func TestJoiningUnread(t *testing.T) {
	for read, want := range map[bool]string{true: "etcdadm adopt --join is not finished", false: "whether hosts are to join a cluster that runs elsewhere cannot be read"} {
		w := newWorld()
		w.spec = &cluster.Spec{MemberCount: 1, EtcdVersion: version("3.6.16")}
		w.addHost("a", version("3.6.16"))
		w.store.intent, w.store.marker, w.store.joining = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}, true, true
		o := w.observe()
		o.Store.Read = read
		if d := Next(Goal{Kind: Converge}, o); d.Action != nil || !strings.Contains(d.Reason.String(), want) {
			t.Errorf("read %t: %s, want %s", read, d.Reason, want)
		}
	}
}
