package faults

import (
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

// job is what a cluster is doing while it is hurt. begin does not wait; each, if
// there is one, is called before each round; finish comes after the last fault,
// and waits for the end.
type job struct {
	name string
	// acts: the leading daemon has several steps to take for it.
	acts bool
	// delicate: the cluster is one member for a while, whose disk has to stay.
	delicate bool
	// restarts: it takes a voter down itself, one at a time.
	restarts bool
	// takes is how many voters a person takes out meanwhile; while that is so nobody is replaced.
	takes   int
	shape   func(s *schedule, random *rand.Rand)
	members func(s schedule) int // in the end
	begin   func(r *faultRun)
	each    func(r *faultRun)
	finish  func(r *faultRun)
}

// resized is a number of members other than before.
func resized(members int) func(schedule) int { return func(schedule) int { return members } }

func asBefore(s schedule) int { return s.members }

func nothing(*faultRun) {}

// steps are the changes by one line that jobs of versions choose from, upwards.
var steps = [][2]string{{testetcd.V35, testetcd.V36}, {testetcd.V36, testetcd.V37}}

var jobs = []job{
	{name: "idle", shape: func(*schedule, *rand.Rand) {}, members: asBefore, begin: nothing, finish: nothing},
	{name: "growing", acts: true, shape: func(s *schedule, _ *rand.Rand) { s.members, s.hosts = 3, 5 }, members: resized(5),
		begin: func(r *faultRun) { r.Configure(5) }, finish: nothing},
	{name: "shrinking", acts: true, shape: func(s *schedule, _ *rand.Rand) { s.members, s.hosts = 5, 5 }, members: resized(3),
		begin: func(r *faultRun) { r.Configure(3) }, finish: nothing},
	{name: "upgrading", acts: true, shape: func(s *schedule, random *rand.Rand) {
		s.members, s.version = 3, steps[random.IntN(len(steps))][0]
	}, members: asBefore, begin: func(r *faultRun) { r.Asks(r.stepFrom(0, 1), r.s.members) }, finish: nothing},
	{name: "downgrading", acts: true, shape: func(s *schedule, random *rand.Rand) {
		s.members, s.version = 3, steps[random.IntN(len(steps))][1]
	}, members: asBefore, begin: func(r *faultRun) { r.Asks(r.stepFrom(1, 0), r.s.members) }, finish: nothing},
	{name: "backing up", shape: func(*schedule, *rand.Rand) {}, members: asBefore, begin: nothing, each: (*faultRun).backUp, finish: (*faultRun).backedUp},
	{name: "restoring", acts: true, delicate: true, shape: func(*schedule, *rand.Rand) {}, members: asBefore, begin: (*faultRun).restoreBegins, finish: (*faultRun).restored},
	{name: "a person's commands", acts: true, takes: 1, shape: func(s *schedule, _ *rand.Rand) { s.members, s.hosts = 5, 5 }, members: asBefore,
		begin: nothing, each: (*faultRun).personCommands, finish: (*faultRun).personIsDone},
	{name: "rotating certificates", restarts: true, shape: func(s *schedule, _ *rand.Rand) { s.members, s.hosts, s.tls = 3, 3, true }, members: asBefore,
		begin: (*faultRun).newAuthorities, each: (*faultRun).restartOne, finish: (*faultRun).rotated},
}

// stepFrom is the other side of the schedule's change of version.
func (r *faultRun) stepFrom(from, to int) string {
	for _, step := range steps {
		if step[from] == r.s.version {
			return step[to]
		}
	}
	r.T.Fatalf("there is no step from etcd %s", r.s.version)
	return ""
}

// backUp asks for a backup, whatever becomes of it.
func (r *faultRun) backUp() {
	r.commands = append(r.commands, r.begin("backup", "--store", r.StoreURL(), "create", "--wait=90s"))
}

// backedUp takes one that has to succeed, and has all that were taken looked at.
func (r *faultRun) backedUp() {
	r.T.Helper()
	for _, c := range r.commands {
		answer := <-c.done
		r.say("%s: exit code %d", c.what, answer.Code)
	}
	name := r.TakeBackup()
	r.say("backup %s", name)
	for _, b := range r.ListBackups() {
		if b.Problem != "" {
			r.T.Errorf("backup %s: %s", b.Name, b.Problem)
			continue
		}
		if answer := r.Backups("verify", b.Name); answer.Code != cli.ExitOK {
			r.T.Errorf("%s", answer)
		}
	}
}

// restoreBegins takes a backup, writes more, and has the backup restored; what
// was written after it is given up, and revisions go on above it.
func (r *faultRun) restoreBegins() {
	r.T.Helper()
	r.backup = r.TakeBackup()
	for _, b := range r.ListBackups() {
		if b.Name == r.backup {
			r.keep = b.Revision
		}
	}
	r.clientsGo(50)
	r.reset = r.clients.Reset()
	r.commands = append(r.commands, r.begin("restore", "--store", r.StoreURL(), "--yes", "--wait=100s", r.backup))
}

// restored waits for the generation that was asked for. A command that was told
// no before it was queued is given again, as a person would.
func (r *faultRun) restored() {
	r.T.Helper()
	answer := <-r.commands[0].done
	r.say("%s: exit code %d", r.commands[0].what, answer.Code)
	if answer.Code != cli.ExitOK {
		r.say("%s", strings.TrimSpace(answer.Stdout))
	}
	generation := func() uint64 {
		var n uint64
		rig.Eventually(r.T, rig.Soon, "a generation is on record", func(ctx context.Context) error {
			in, err := r.intentSeen(ctx)
			if err == nil {
				n = in.Generation
			}
			return err
		})
		return n
	}
	queued := strings.Contains(answer.Stdout, "queued") || strings.Contains(answer.Stdout, "added")
	if generation() == 1 && !queued {
		if answer = r.Restore(r.backup); answer.Code != cli.ExitOK {
			r.T.Fatalf("a restore after all faults: %s", answer)
		}
	}
	rig.Eventually(r.T, rig.RestoreWithin, "the restored generation serves", func(ctx context.Context) error {
		in, err := r.intentSeen(ctx)
		if err != nil {
			return err
		}
		if in.Generation < 2 || in.State != cluster.IntentFounded || in.Quarantined {
			return fmt.Errorf("generation %d is %s, quarantined: %t", in.Generation, in.State, in.Quarantined)
		}
		return nil
	})
	r.Members(rig.RestoreWithin, r.s.members)
	r.reset(r.keep)
	r.clientsGo(50)
}

// intentSeen is the intent as the leading daemon read it.
func (r *faultRun) intentSeen(ctx context.Context) (*cluster.Intent, error) {
	report, err := r.Report(ctx, r.Host(1))
	if err != nil {
		return nil, err
	}
	if report.Observation == nil || report.Observation.Store.Intent == nil {
		return nil, fmt.Errorf("there is no intent in the observation")
	}
	return report.Observation.Store.Intent, nil
}

// authorityFiles are the three authorities, as FORMATS names them.
var authorityFiles = []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA}

// secondAuthorities makes other authorities and has everybody trust both, before
// anything runs.
func (r *faultRun) secondAuthorities() {
	r.T.Helper()
	second := filepath.Join(r.Dir, "pki-second")
	if _, err := pki.Create(second, time.Now()); err != nil {
		r.T.Fatal(err)
	}
	for _, name := range authorityFiles {
		first := filepath.Join(r.PKIDir(), name+".crt")
		old, err := os.ReadFile(first)
		if err != nil {
			r.T.Fatal(err)
		}
		added, err := os.ReadFile(filepath.Join(second, name+".crt"))
		if err != nil {
			r.T.Fatal(err)
		}
		if err := os.WriteFile(first, slices.Concat(old, added), 0o600); err != nil {
			r.T.Fatal(err)
		}
	}
}

// newAuthorities puts the new keys in place of the old ones: whoever starts from
// now on issues its leaves by them.
func (r *faultRun) newAuthorities() {
	r.T.Helper()
	for _, name := range authorityFiles {
		key, err := os.ReadFile(filepath.Join(r.Dir, "pki-second", name+".key"))
		if err != nil {
			r.T.Fatal(err)
		}
		path := filepath.Join(r.PKIDir(), name+".key")
		if err := os.WriteFile(path+".new", key, 0o600); err != nil {
			r.T.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			r.T.Fatal(err)
		}
	}
}

// restartOne restarts a host with its etcd, as the handbook says, and goes on.
func (r *faultRun) restartOne() {
	r.T.Helper()
	if r.restarted >= len(r.Hosts) {
		return
	}
	h := r.Hosts[r.restarted]
	r.restarted++
	// A fault that is over may have started this daemon just now: one that does not
	// listen to signals yet, or has not adopted its etcd, ends without it.
	r.Process(h, h, "the one that runs", func(p cluster.Process) bool { return p.PID == h.EtcdPID() })
	r.say("host %d is restarted, for its new certificates", h.N)
	h.Interrupt()
	h.Start()
}

// rotated restarts the hosts that are left, and looks at every leaf.
func (r *faultRun) rotated() {
	r.T.Helper()
	for r.restarted < len(r.Hosts) {
		r.restartOne()
		r.Members(rig.Soon, r.s.members)
	}
	second, err := pki.Load(filepath.Join(r.Dir, "pki-second"), time.Now())
	if err != nil {
		r.T.Fatal(err)
	}
	for _, h := range r.Hosts {
		// Nothing else waits for the daemon of a free host that was restarted just now.
		rig.Eventually(r.T, rig.Soon, fmt.Sprintf("host %d has a certificate that the new authority issued", h.N), func(context.Context) error {
			pair, err := pki.LoadKeypair(filepath.Join(h.Dir, "etcdadm", "pki", "daemon"), pki.PeerNames)
			if err != nil {
				return err
			}
			_, err = pair.Leaf().Verify(x509.VerifyOptions{Roots: second.Manager.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			return err
		})
	}
}
