package machines

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io"
	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/plan"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// program is a program of somebody else, which knows etcdadm by its library alone.
type program struct {
	*testing.T
	made     []*machine
	machines []etcdadm.Machine
	hosts    []etcdadm.Joining // where each is reached, and what it is called
}

func newProgram(t *testing.T, n int) *program {
	t.Helper()
	p := &program{T: t}
	all, _ := newMachines(t, n)
	p.made = all
	for _, m := range all {
		p.machines = append(p.machines, etcdadm.Machine{
			Program: filepath.Join(rig.Programs, "etcdadm"), Service: m.direct, Root: m.Paths.Root,
			Say: func(s string) { t.Logf("%s: %s", m.id, s) },
		})
		p.hosts = append(p.hosts, etcdadm.Joining{Address: m.address, Host: cluster.HostID(m.id), Wait: time.Minute})
	}
	return p
}

// begin makes a cluster of all machines.
func (p *program) begin(ctx context.Context) (etcdadm.Invitation, *etcdadm.Client) {
	p.Helper()
	host, invitation, err := etcdadm.Init(ctx, p.machines[0], etcdadm.NewCluster{Address: p.hosts[0].Address, Host: p.hosts[0].Host, Members: len(p.machines)})
	if err != nil || host.Again || host.Host != p.hosts[0].Host || host.Etcd == "" {
		p.Fatalf("%+v, %v", host, err)
	}
	for i := range p.machines[1:] {
		host, err := etcdadm.Join(ctx, p.machines[i+1], invitation, p.hosts[i+1])
		if err != nil || host.Again || host.Spare || host.Cluster != "etcd" {
			p.Fatalf("%+v, %v", host, err)
		}
	}
	c, err := etcdadm.Connect(ctx, etcdadm.Access{DataDir: p.machines[0].DataDir()})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.Error(err)
		}
	})
	return invitation, c
}

// healthy waits until the cluster is, and nothing is to be done.
func (p *program) healthy(ctx context.Context, c *etcdadm.Client) etcdadm.Status {
	p.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s, err := c.Status(ctx)
		d, planned := c.Plan(ctx)
		switch {
		case err == nil && planned == nil && s.Health == etcdadm.Well && d.Done:
			return s
		case time.Now().After(deadline):
			p.Fatalf("not healthy: %+v, %v; %s, %v", s, err, d.Reason, planned)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// follower is a host whose member raft does not lead by.
func (p *program) follower(o *cluster.Observation) cluster.HostID {
	p.Helper()
	roster, _ := o.Roster()
	for _, s := range roster.Seats {
		if !s.RaftLeader {
			return s.HostID
		}
	}
	p.Fatal("raft has no follower")
	return ""
}

func (p *program) put(ctx context.Context, keys *clientv3.Client, key string) {
	p.Helper()
	if _, err := keys.Put(ctx, key, "x"); err != nil {
		p.Fatal(err)
	}
}

func (p *program) has(ctx context.Context, keys *clientv3.Client, key string) bool {
	p.Helper()
	got, err := keys.Get(ctx, key)
	if err != nil {
		p.Fatal(err)
	}
	return len(got.Kvs) > 0
}

// There and back: what was written after a backup is not there after its restore.
func TestLibraryRestores(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p := newProgram(t, 3)
	_, c := p.begin(ctx)
	keys := p.made[0].client(t)
	before := p.healthy(ctx, c).Observation.Store.Intent.Generation
	p.put(ctx, keys, "kept")
	taken, err := c.Backup(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.put(ctx, keys, "lost")

	if err := c.Restore(ctx, "2026-01-02T03:04:05Z-000000", etcdadm.Restoring{}); !errors.Is(err, etcdadm.ErrNoBackup) {
		t.Errorf("no such backup: %v", err)
	}
	if err := c.Restore(ctx, "nonsense", etcdadm.Restoring{}); !errors.Is(err, etcdadm.ErrNoBackup) {
		t.Errorf("no name: %v", err)
	}
	if err := c.Restore(ctx, taken.Name, etcdadm.Restoring{Members: 4}); !errors.Is(err, etcdadm.ErrRefused) {
		t.Errorf("four members: %v", err)
	}
	if err := c.Restore(ctx, taken.Name, etcdadm.Restoring{Version: cluster.MustVersion("3.4.30")}); !errors.Is(err, etcdadm.ErrRefused) {
		t.Errorf("an etcd that cannot read it: %v", err)
	}
	var said []string
	if err := c.Restore(ctx, taken.Name, etcdadm.Restoring{Say: func(s string) { said = append(said, s) }}); err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 {
		t.Error("nothing was said of what it waited for")
	}
	if in := p.healthy(ctx, c).Observation.Store.Intent; in.Generation != before+1 || in.Source.Backup != taken.Name {
		t.Errorf("generation %d, of %+v", in.Generation, in.Source)
	}
	if kept, lost := p.has(ctx, keys, "kept"), p.has(ctx, keys, "lost"); !kept || lost {
		t.Errorf("kept: %t, lost: %t", kept, lost)
	}
}

// A cluster from three fresh machines, by the library alone.
func TestLibrary(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p := newProgram(t, 3)
	invitation, c := p.begin(ctx)
	s := p.healthy(ctx, c)
	if s.Cluster != "etcd" || len(s.Daemons) < 3 || s.At.IsZero() || s.Leader == "" {
		t.Errorf("%+v", s)
	}

	// Steps by hand.
	to := p.follower(s.Observation)
	if d, err := c.PlanStep(ctx, plan.Goal{Kind: plan.MoveLeader, Host: to}); err != nil || d.Action == nil {
		t.Errorf("%+v, %v", d, err)
	}
	if done, err := c.Apply(ctx, plan.Goal{Kind: plan.MoveLeader, Host: to}); err != nil || len(done.Steps) == 0 || done.By == "" {
		t.Errorf("%+v, %v", done, err)
	}
	if d, err := c.PlanStep(ctx, plan.Goal{Kind: plan.Leave, Host: to}); !errors.Is(err, etcdadm.ErrRefused) || !d.Refused {
		t.Errorf("below what the spec asks for: %+v, %v", d, err)
	}
	if done, err := c.Apply(ctx, plan.Goal{Kind: plan.MoveLeader, Host: "nobody"}); !errors.Is(err, etcdadm.ErrRefused) || len(done.Steps) > 0 {
		t.Errorf("to nobody: %+v, %v", done, err)
	}
	if _, err := c.Apply(ctx, plan.Goal{}); !errors.Is(err, etcdadm.ErrRefused) {
		t.Errorf("no step: %v", err)
	}

	// A backup, which the hosts keep.
	taken, err := c.Backup(ctx)
	if err != nil || taken.Name == "" || taken.Reason != "requested" {
		t.Fatalf("%+v, %v", taken, err)
	}
	if all, err := c.Backups(ctx); err != nil || !slices.ContainsFunc(all, func(b cluster.Backup) bool { return b.Name == taken.Name }) {
		t.Errorf("%s is not among %+v, %v", taken.Name, all, err)
	}
	hurried, cancelled := context.WithTimeout(ctx, time.Nanosecond)
	defer cancelled()
	if _, err := c.Backup(hurried); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in no time: %v", err)
	}

	// Again, and wrongly.
	if host, _, err := etcdadm.Init(ctx, p.machines[0], etcdadm.NewCluster{}); err != nil || !host.Again || host.Host != p.hosts[0].Host {
		t.Errorf("again: %+v, %v", host, err)
	}
	if host, err := etcdadm.Join(ctx, p.machines[1], invitation, etcdadm.Joining{}); err != nil || !host.Again {
		t.Errorf("again: %+v, %v", host, err)
	}
	if _, _, err := etcdadm.Init(ctx, p.machines[0], etcdadm.NewCluster{Name: "other"}); !errors.Is(err, etcdadm.ErrOtherCluster) || etcdadm.Hint(err) == "" {
		t.Errorf("a host of another cluster: %v", err)
	}
	if _, _, err := etcdadm.Init(ctx, p.machines[0], etcdadm.NewCluster{Members: 2, Host: "other"}); !errors.Is(err, etcdadm.ErrRefused) {
		t.Errorf("under another name: %v", err)
	}
	wrong := invitation
	wrong.Token = "aaaaaa." + invitation.Token[len("aaaaaa."):]
	fresh := newProgram(t, 1)
	if _, err := etcdadm.Join(ctx, fresh.machines[0], wrong, fresh.hosts[0]); !errors.Is(err, etcdadm.ErrRefused) {
		t.Errorf("with a wrong token: %v", err)
	}
	wrong.CAHash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	if _, err := etcdadm.Join(ctx, fresh.machines[0], wrong, fresh.hosts[0]); !errors.Is(err, etcdadm.ErrOtherCluster) {
		t.Errorf("with another cluster's hash: %v", err)
	}
	wrong.Endpoint = "127.0.0.1:1"
	if _, err := etcdadm.Join(ctx, fresh.machines[0], wrong, fresh.hosts[0]); !errors.Is(err, etcdadm.ErrNoDaemon) {
		t.Errorf("where nobody is: %v", err)
	}
	if _, err := etcdadm.Connect(ctx, etcdadm.Access{DataDir: p.machines[0].DataDir(), Cluster: "other"}); !errors.Is(err, etcdadm.ErrOtherDisk) {
		t.Errorf("another cluster's directory: %v", err)
	}
}
