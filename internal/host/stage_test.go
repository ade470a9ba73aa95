package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/record"
)

// stager is a host.Sources that stages when it is told to.
type stager struct {
	m       *machine
	proceed chan error // how the stage under way ends
	backup  func(context.Context, record.Launch, bulk.BackupOrder) (cluster.Backup, error)
	logEnd  func(context.Context, func(cluster.LogReading)) (cluster.Progress, error)
	drill   func() error
	tidy    func(context.Context)

	mu      sync.Mutex // guards what follows
	dropped []string
	gone    bool // what was staged was taken away
}

func (x *stager) Stage(ctx context.Context, o bulk.StageOrder, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	progress(cluster.StageFetching, 1)
	select {
	case err := <-x.proceed:
		return bulk.Built{Source: o.Source, Cluster: 0xe, Member: 7}, err
	case <-ctx.Done():
		return bulk.Built{}, ctx.Err()
	}
}

func (x *stager) Install(token string, disk cluster.DiskID) error {
	if x.gone {
		return fmt.Errorf("install: %w", fs.ErrNotExist)
	}
	return nil
}

func (x *stager) DropStaged(token string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropped = append(x.dropped, token)
	return nil
}

func (x *stager) V2InLog(context.Context, string) (bool, error) { return false, nil }

func (x *stager) LogEnd(ctx context.Context, _ string, tell func(cluster.LogReading)) (cluster.Progress, error) {
	if x.logEnd != nil {
		return x.logEnd(ctx, tell)
	}
	return cluster.Progress{Term: 2, Index: 9}, nil
}

func (x *stager) Backup(ctx context.Context, l record.Launch, o bulk.BackupOrder) (cluster.Backup, error) {
	if x.backup != nil {
		return x.backup(ctx, l, o)
	}
	return cluster.Backup{}, errors.New("not here")
}

func (x *stager) Tidy(ctx context.Context) {
	if x.tidy != nil {
		x.tidy(ctx)
	}
}

func (x *stager) Drill(context.Context, string, cluster.Version) (cluster.Backup, error) {
	if x.drill != nil {
		return cluster.Backup{}, x.drill()
	}
	return cluster.Backup{}, errors.New("not here")
}

func (x *stager) Survey(context.Context, bulk.SurveyOrder) (cluster.Survey, error) {
	return cluster.Survey{}, errors.New("not here")
}
func (x *stager) Received(string) time.Duration { return 0 }
func (x *stager) FreeSpace() int64              { return 0 }

func staging(m *machine) (*stager, func(*session, *host.Options)) {
	x := &stager{m: m, proceed: make(chan error, 1)}
	return x, func(_ *session, o *host.Options) { o.Sources = x }
}

func stageOp(kind string) cluster.Op {
	return cluster.Op{Kind: cluster.OpStage, Host: "h1", Command: "cmd", Generation: 2, Version: v35, Source: &cluster.Source{Kind: kind, Backup: "B1"}}
}

// TestStageThatIsAlwaysCutShortIsGivenUp: as where the memory runs out, which
// takes the daemon with it.
func TestStageThatIsAlwaysCutShortIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		for range 3 {
			_, with := staging(m)
			d := m.boot(with)
			d.must(1, stageOp(cluster.SourceBackup))
			d.end()
		}
		_, with := staging(m)
		d := m.boot(with)
		defer d.end()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageFailed || s.Reason == "" {
			t.Fatalf("after three cuts: %+v", s)
		}
	})
}

// TestStageCutOnceIsBegunAnew: and what it took does not make it old.
func TestStageCutOnceIsBegunAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		_, with := staging(m)
		d := m.boot(with)
		d.must(1, stageOp(cluster.SourceBackup))
		d.end()
		x, with := staging(m)
		d = m.boot(with)
		defer d.end()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageCut {
			t.Fatalf("after a cut: %+v", s)
		}
		d.must(1, stageOp(cluster.SourceBackup))
		later(90 * time.Minute)
		x.proceed <- nil
		synctest.Wait()
		s := d.look(1).Staged
		if s == nil || s.State != cluster.StageReady || time.Since(s.Since) > time.Minute || len(s.PeerURLs) != 1 {
			t.Fatalf("at the end: %+v", s)
		}
	})
}

// TestSurvivorsStageEndsWithItsMembersRest: the member may write more.
func TestSurvivorsStageEndsWithItsMembersRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		d := m.boot(with)
		defer d.end()
		d.look(1)
		d.must(1, m.found(1))
		d.look(1)
		stop := cluster.Op{Kind: cluster.OpStop, Host: "h1", Member: 1}
		d.must(1, stop)
		d.must(1, stageOp(cluster.SourceSurvivor))
		x.proceed <- nil
		synctest.Wait()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageReady {
			t.Fatalf("staged: %+v", s)
		}
		d.must(1, cluster.Op{Kind: cluster.OpRestart, Host: "h1", Member: 1})
		d.must(1, stop)
		if s := d.look(1).Staged; s != nil || len(x.dropped) != 1 {
			t.Fatalf("after the member ran again: %+v, taken away %q", s, x.dropped)
		}
	})
}

// TestStagedDataThatIsGoneIsSaid: else the start would be tried for ever.
func TestStagedDataThatIsGoneIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		d := m.boot(with)
		defer d.end()
		d.must(1, stageOp(cluster.SourceBackup))
		x.proceed <- nil
		synctest.Wait()
		s := d.look(1).Staged
		op := m.found(2)
		m.mu.Lock()
		m.intent.Source, m.intent.Token, m.intent.Cluster, m.intent.Founders[0].Member = s.Source, s.Token, s.Cluster, s.Member
		m.mu.Unlock()
		op.Source, op.Member = &s.Source, s.Member
		x.gone = true
		if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeFailed {
			t.Fatalf("%s: %s", r.Outcome, r.Reason)
		}
		if s := d.look(1).Staged; s != nil {
			t.Fatalf("still staged: %+v", s)
		}
	})
}

// TestIntentThatLeavesOutVotersIsNotKept: a change that was made without the
// store is known to this host, and not to who wrote the next generation.
func TestIntentThatLeavesOutVotersIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		voter := func(id cluster.MemberID) cluster.Voter {
			return cluster.Voter{Host: cluster.HostID(fmt.Sprint("h", id)), Member: id}
		}
		three, one := []cluster.Voter{voter(1), voter(2), voter(3)}, []cluster.Voter{voter(1)}
		kept := &cluster.Intent{
			Name: "test", Generation: 1, Nonce: "n1", Token: "t1", State: cluster.IntentFounded, Write: 6, Unstored: fence(1),
			Voters: []cluster.Voter{voter(1), voter(2)}, Next: one,
		}
		observe := func(in *cluster.Intent) *cluster.Intent {
			t.Helper()
			r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
			if r.State == nil {
				t.Fatalf("%+v", r)
			}
			return r.State.Intent
		}
		if in := observe(kept); in == nil || in.Write != 6 {
			t.Fatalf("kept %+v", in)
		}
		next := &cluster.Intent{
			Name: "test", Generation: 2, Nonce: "n2", Token: "t2", State: cluster.IntentFounding, Write: 1,
			History: []cluster.PastGeneration{{Generation: 1, Write: 5, Voters: [][]cluster.Voter{three}}},
		}
		if in := observe(next); in == nil || in.Generation != 1 {
			t.Fatalf("gave up what it knows for %+v", in)
		}
		if !next.Cover(kept) {
			t.Fatal("nothing was added to the history")
		}
		next.Write++
		if in := observe(next); in == nil || in.Generation != 2 {
			t.Fatalf("kept %+v", in)
		}
	})
}

// TestStageOfSomethingElse: what nobody asks for any more gives way to what is
// asked for now, under whatever name; the same asked for again does not.
func TestStageOfSomethingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		d := m.boot(with)
		defer d.end()
		d.must(1, stageOp(cluster.SourceBackup))
		first := d.look(1).Staged
		d.mustRefuse(1, stageOp(cluster.SourceBackup))
		synctest.Wait()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageFetching || s.Token != first.Token {
			t.Errorf("asked for the same it goes on with: %+v", s)
		}
		other := stageOp(cluster.SourceBackup)
		other.Source.Backup = "B2"
		d.mustRefuse(1, other)
		synctest.Wait()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageCut || s.Cuts != 0 {
			t.Errorf("what was given up is: %+v", s)
		}
		d.must(1, other)
		x.proceed <- nil
		synctest.Wait()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageReady || s.Source.Backup != "B2" || s.Token == first.Token {
			t.Errorf("what lies ready is: %+v", s)
		}
	})
}

// TestInstalledAndNeverStarted: the daemon ended between the move of what lay ready into a
// member's place and the record of that member. What is made ready in its place sets it
// aside, since nothing would account for it then, and the host would never be free again.
func TestInstalledAndNeverStarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		d := m.boot(with)
		defer d.end()
		d.must(1, stageOp(cluster.SourceBackup))
		x.proceed <- nil
		synctest.Wait()
		ready := d.look(1).Staged
		m.mu.Lock()
		m.disk.data[ready.Token] = &directory{mark: "built", wal: true}
		m.mu.Unlock()
		again := stageOp(cluster.SourceBackup)
		again.Command = "another"
		d.must(1, again)
		r := d.look(1)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.disk.data) != 0 || len(r.SetAside) != 1 || r.SetAside[0].Reason != "never ran" {
			t.Errorf("in place are %v, and set aside is %v", m.disk.data, r.SetAside)
		}
	})
}

// TestHaltedSourceIsDropped: what was made of a halted member is dropped, too, when that
// member runs again, since it may write more.
func TestHaltedSourceIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		d := m.boot(with)
		d.look(1)
		d.must(1, m.found(1))
		d.look(1)
		stop := cluster.Op{Kind: cluster.OpStop, Host: "h1", Member: 1}
		d.must(1, stop)
		d.must(1, stageOp(cluster.SourceSurvivor))
		x.proceed <- nil
		synctest.Wait()
		d.end()
		m.edit(func(s *record.State) { s.Staged.Source.Kind = cluster.SourceHalted })
		x, with = staging(m)
		d = m.boot(with)
		defer d.end()
		if s := d.look(1).Staged; s == nil || s.State != cluster.StageReady {
			t.Fatalf("staged: %+v", s)
		}
		d.must(1, cluster.Op{Kind: cluster.OpRestart, Host: "h1", Member: 1})
		if s := d.look(1).Staged; s != nil || len(x.dropped) != 1 {
			t.Errorf("after the member ran again: %+v, taken away %q", s, x.dropped)
		}
	})
}
