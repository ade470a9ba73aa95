package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"etcdadm.io/internal/testetcd"
)

const memoryRow = "… the daemon's memory above idle meanwhile"

// backupTaken: a database of values that do not compress is backed up into a
// directory. By hand it is etcdctl snapshot save, which compresses nothing.
func backupTaken() measure { return backups("backup", "gzip", "default compression", 3) }

// backupPlain is the same without compression, as etcdctl does it.
func backupPlain() measure { return backups("backup-plain", "none", "no compression", 1.3) }

func backups(name, compression, words string, times float64) measure {
	return measure{
		name: name,
		most: 3,
		rows: []row{
			seconds("backup, "+words+": asked for → listed", timesByHand(times)),
			{name: memoryRow, unit: "MiB", digits: 1, target: atMost(64)},
		},
		hand: saveByHand,
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			return backupOurs(ctx, b, dir, compression)
		},
	}
}

func saveByHand(ctx context.Context, b *bench, dir string) (sample, error) {
	c, err := settledByHand(ctx, dir, testetcd.V37, 1)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	if err := fill(ctx, seatByHand(c, 0), b.size); err != nil {
		return sample{}, err
	}
	d, err := save(ctx, c, filepath.Join(dir, "saved.db"))
	return sample{Values: []float64{d.Seconds(), 0}}, err
}

// save runs etcdctl snapshot save.
func save(ctx context.Context, c *testetcd.Cluster, file string) (time.Duration, error) {
	release, err := testetcd.Fetch(ctx, testetcd.V37)
	if err != nil {
		return 0, err
	}
	certs := c.Certs()
	cmd := exec.CommandContext(ctx, release.Etcdctl, "--endpoints=https://"+c.Members[0].Endpoint(), "--cacert="+certs.CA, "--cert="+certs.Cert, "--key="+certs.Key, "snapshot", "save", file)
	began := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("etcdctl snapshot save: %w\n%s", err, said)
	}
	return time.Since(began), nil
}

func backupOurs(ctx context.Context, b *bench, dir, compression string) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 1, 1, "--backup-compression="+compression)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	if err := fill(ctx, f.hosts[0].seat(), b.size); err != nil {
		return sample{}, err
	}
	stop := f.peak()
	began := time.Now()
	_, err = f.backup(ctx)
	took := time.Since(began)
	return sample{Values: []float64{took.Seconds(), stop()}, Events: f.decisions(ctx, began)}, err
}
