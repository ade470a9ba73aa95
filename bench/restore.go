package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/testetcd"
)

// restored: a running cluster of three is made what it was in a backup. By hand
// it is etcdutl snapshot restore alone, without stopping or starting anything.
func restored() measure {
	return measure{
		name: "restore",
		most: 2,
		rows: []row{
			seconds("restore over a running cluster: command → serving", timesByHand(2)),
			seconds("… → all three voters", timesByHand(4)),
			{name: memoryRow, unit: "MiB", digits: 1, target: atMost(64)},
		},
		hand: restoreByHand,
		ours: restoreOurs,
	}
}

// allLost: the disks of all three hosts are gone, the daemons run.
func allLost() measure {
	return measure{
		name: "lost",
		rows: []row{
			seconds("5,000 keys, every disk lost: command → serving", atMost(5)),
			seconds("… → all three voters", atMost(10)),
		},
		ours: lostOurs,
	}
}

func restoreByHand(ctx context.Context, b *bench, dir string) (sample, error) {
	file, err := b.saved(ctx)
	if err != nil {
		return sample{}, err
	}
	release, err := testetcd.Fetch(ctx, testetcd.V37)
	if err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, release.Etcdutl, "snapshot", "restore", file, "--data-dir="+filepath.Join(dir, "restored"), "--bump-revision=1000000000", "--mark-compacted")
	began := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		return sample{}, fmt.Errorf("etcdutl snapshot restore: %w\n%s", err, said)
	}
	took := time.Since(began).Seconds()
	return sample{Values: []float64{took, took, 0}}, nil
}

func restoreOurs(ctx context.Context, b *bench, dir string) (sample, error) {
	file, err := b.saved(ctx)
	if err != nil {
		return sample{}, err
	}
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	name, err := f.put(ctx, file)
	if err != nil {
		return sample{}, err
	}
	old, err := f.clusterID(ctx)
	if err != nil {
		return sample{}, err
	}
	stop := f.peak()
	s, err := f.restoreBackup(ctx, name, old)
	s.Values = append(s.Values, stop())
	return s, err
}

// saved is a snapshot of a database of the size that is asked for, made once.
func (b *bench) saved(ctx context.Context) (string, error) {
	dir := filepath.Join(b.dir, "saved")
	file := filepath.Join(dir, "saved.db")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	c, err := settledByHand(ctx, dir, testetcd.V37, 1)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := fill(ctx, seatByHand(c, 0), b.size); err != nil {
		return "", err
	}
	_, err = save(ctx, c, file)
	return file, err
}

// put writes a snapshot into the fleet's store, as a backup of it.
func (f *fleet) put(ctx context.Context, file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	store, err := open.Open(ctx, f.store(), open.Options{})
	if err != nil {
		return "", err
	}
	b, err := backupstore.New(store).Write(ctx, backupstore.Request{Meta: backup.Meta{EtcdVersion: cluster.MustVersion(f.version)}}, in)
	return b.Name.String(), err
}

func lostOurs(ctx context.Context, b *bench, dir string) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	if err := fillSmall(ctx, f.hosts[0].seat(), 5000); err != nil {
		return sample{}, err
	}
	name, err := f.backup(ctx)
	if err != nil {
		return sample{}, err
	}
	for _, h := range f.hosts {
		if err := h.wipe(ctx); err != nil {
			return sample{}, err
		}
	}
	if err := f.start(); err != nil {
		return sample{}, err
	}
	if err := pause(ctx, settle); err != nil {
		return sample{}, err
	}
	return f.restoreBackup(ctx, name, 0)
}

func (f *fleet) clusterID(ctx context.Context) (id uint64, err error) {
	v, err := f.hosts[0].seat().open()
	if err != nil {
		return 0, err
	}
	defer v.close()
	st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return 0, err
	}
	return st.Header.ClusterId, nil
}

// restoreBackup queues the command, and waits until a write goes through a
// member of another cluster than the old one, and until all are voters of it.
func (f *fleet) restoreBackup(ctx context.Context, name string, old uint64) (sample, error) {
	began := time.Now()
	if _, err := f.ctl(ctx, "restore-backup", name); err != nil {
		return sample{}, err
	}
	serving := make(chan time.Time, len(f.hosts))
	watch, stop := context.WithCancel(ctx)
	defer stop()
	for _, h := range f.hosts {
		go func() {
			v, err := h.seat().open()
			if err != nil {
				return
			}
			defer v.close()
			if t, err := poll(watch, func(ctx context.Context) error { return v.serves(ctx, old) }); err == nil {
				serving <- t
			}
		}()
	}
	var first time.Time
	select {
	case first = <-serving:
	case <-ctx.Done():
		return sample{Events: f.decisions(context.WithoutCancel(ctx), began)}, ctx.Err()
	}
	done, _, err := healthy(ctx, began, len(f.hosts), f.seats()...)
	return sample{Values: []float64{first.Sub(began).Seconds(), done.Sub(began).Seconds()}, Events: f.decisions(ctx, began)}, err
}

// serves objects unless a write goes through a member of another cluster.
func (v *viewer) serves(ctx context.Context, old uint64) error {
	st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{})
	switch {
	case err != nil:
		return err
	case st.Header.ClusterId == old || st.Leader == 0 || st.IsLearner:
		return errors.New("it is of the old cluster, or sees no leader")
	}
	_, err = v.kv.Put(ctx, &etcdserverpb.PutRequest{Key: []byte("bench"), Value: []byte("restored")})
	return err
}
