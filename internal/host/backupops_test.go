package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/record"
)

// TestBackupEndsWithItsRelease: a backup has ended before what it reads through is
// started with another release, and goes on beside a restart with the same one.
func TestBackupEndsWithItsRelease(t *testing.T) {
	for _, other := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			x := &stager{}
			end := make(chan error)
			x.backup = func(ctx context.Context, _ record.Launch, _ bulk.BackupOrder) (cluster.Backup, error) {
				select {
				case <-ctx.Done():
					return cluster.Backup{}, ctx.Err()
				case err := <-end:
					return cluster.Backup{Name: "B1"}, err
				}
			}
			m, d := running(t, v35, func(_ *session, o *host.Options) { o.Sources = x })
			defer d.end()
			x.m = m
			d.must(1, cluster.Op{Kind: cluster.OpBackup, Host: "h1", Member: 9, Cluster: 0xc, Reason: "requested", Command: "c1"})
			op := cluster.Op{Kind: cluster.OpRestart, Member: 9, Cluster: 0xc}
			if other {
				op.Changes, op.Version = true, v36
			}
			d.must(1, op)
			synctest.Wait()
			b := d.look(1).Taken
			if b == nil || b.Running == other || other != strings.Contains(b.Error, "another release") {
				t.Errorf("after a restart with another release (%t): %+v", other, b)
			}
			if !other {
				end <- nil
			}
			synctest.Wait()
			d.must(1, cluster.Op{Kind: cluster.OpBackup, Host: "h1", Member: 9, Cluster: 0xc, Reason: "requested", Command: "c2"})
			synctest.Wait()
			if b := d.look(1).Taken; b == nil || !b.Running || (b.Former != nil) != other {
				t.Errorf("while the next one is taken: %+v", b)
			}
			end <- nil // it is taken as any
			synctest.Wait()
			if b := d.look(1).Taken; b == nil || b.Running || b.Error != "" || b.Backup == nil || b.Former != nil {
				t.Errorf("the next one: %+v", b)
			}
		})
	}
}

// A backup is of the very member that it was asked for, and is taken once at a time: who
// asks for another one meanwhile is not told that it is theirs.
func TestBackupOp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		var orders []bulk.BackupOrder
		end := make(chan error)
		x.backup = func(_ context.Context, _ record.Launch, o bulk.BackupOrder) (cluster.Backup, error) {
			orders = append(orders, o)
			return cluster.Backup{Name: "B1"}, <-end
		}
		d := m.boot(with)
		defer d.end()
		op := cluster.Op{Kind: cluster.OpBackup, Host: "h1", Member: 9, Cluster: 0xc, Reason: "periodic", Command: "c1", KeepFor: time.Hour}
		d.mustRefuse(1, op) // there is no member
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		for what, change := range map[string]func(*cluster.Op){
			"another member": func(o *cluster.Op) { o.Member = 8 }, "another cluster": func(o *cluster.Op) { o.Cluster = 0xd },
		} {
			o := op
			change(&o)
			if r := d.do(1, o, cluster.Guard{}); r.Outcome != cluster.OutcomeRefused {
				t.Errorf("%s: %+v", what, r)
			}
		}
		d.must(1, op)
		d.must(1, op) // it was so already
		for what, change := range map[string]func(*cluster.Op){
			"for another command": func(o *cluster.Op) { o.Command = "c2" }, "for another reason": func(o *cluster.Op) { o.Reason = "final" },
		} {
			o := op
			change(&o)
			if r := d.do(1, o, cluster.Guard{}); r.Outcome != cluster.OutcomeRefused {
				t.Errorf("%s, beside the first: %+v", what, r)
			}
		}
		synctest.Wait()
		if !d.look(1).KeepsBackups {
			t.Error("it does not say that it knows how long a backup is kept")
		}
		if b := d.look(1).Taken; b == nil || !b.Running || len(orders) != 1 || orders[0].Member != 9 || orders[0].Cluster != 0xc || orders[0].KeepFor != time.Hour {
			t.Fatalf("%+v, ordered were %+v", b, orders)
		}
		end <- nil
		synctest.Wait()
		if b := d.look(1).Taken; b == nil || b.Running || b.Error != "" || b.Backup == nil || b.Backup.Name != "B1" || b.Command != "c1" {
			t.Fatalf("%+v", b)
		}
	})
}

// What an error says of the way out comes along with it.
func TestABackupThatFailedKeepsItsHint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		x.backup = func(context.Context, record.Launch, bulk.BackupOrder) (cluster.Backup, error) {
			return cluster.Backup{}, fmt.Errorf("write the snapshot: %w", &blob.Error{Op: "put", Object: "s3://b", Err: blob.ErrForbidden, Advice: "allow s3:PutObject"})
		}
		x.drill = func() error {
			return fmt.Errorf("read it: %w", &blob.Error{Op: "get", Object: "s3://b", Err: blob.ErrForbidden, Advice: "allow s3:GetObject"})
		}
		d := m.boot(with)
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		d.must(1, cluster.Op{Kind: cluster.OpBackup, Host: "h1", Member: 9, Cluster: 0xc, Reason: "periodic"})
		d.must(1, cluster.Op{Kind: cluster.OpDrill, Host: "h1", Backup: "B1"})
		synctest.Wait()
		seen := d.look(1)
		for _, test := range []struct {
			of   *cluster.Taken
			hint string
		}{{seen.Taken, "allow s3:PutObject"}, {seen.Drill, "allow s3:GetObject"}} {
			if test.of == nil || test.of.Error == "" || test.of.Hint != test.hint || !strings.HasSuffix(test.of.Why(), "; "+test.hint) {
				t.Errorf("%+v, want the hint %q", test.of, test.hint)
			}
		}
	})
}

// What is tidied up after a backup is no part of it: the next one need not wait for a
// store that does not answer, and nothing is tidied twice at a time.
func TestABackupIsOverBeforeTheStoreIsTidied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		x, with := staging(m)
		x.backup = func(context.Context, record.Launch, bulk.BackupOrder) (cluster.Backup, error) {
			return cluster.Backup{Name: "B1"}, nil
		}
		began, ended := 0, 0
		var took time.Duration
		x.tidy = func(ctx context.Context) {
			began++
			at := time.Now()
			<-ctx.Done()
			took = time.Since(at)
			ended++
		}
		d := m.boot(with)
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		take := func(tidied int) {
			t.Helper()
			d.must(1, cluster.Op{Kind: cluster.OpBackup, Host: "h1", Member: 9, Cluster: 0xc, Reason: "periodic"})
			later(time.Second)
			b := d.look(1).Taken
			synctest.Wait() // what tidies may still write
			if b == nil || b.Running || b.Backup == nil || began != tidied {
				t.Fatalf("%+v; tidied %d times, want %d", b, began, tidied)
			}
		}
		take(1)
		take(1) // not beside the first
		later(11 * time.Minute)
		synctest.Wait()
		if ended != 1 || took != 10*time.Minute {
			t.Errorf("%d ended, the last after %s", ended, took)
		}
		take(2)
	})
}
