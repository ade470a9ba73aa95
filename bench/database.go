package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// valueBytes is the size of a value before base64: 1.2 MB after it, the worst
// that etcd takes, of random bytes, the worst for compression.
const valueBytes = 900_000

// fill writes so many MB through a member, or the objects that were asked for.
func fill(ctx context.Context, s seat, megabytes int) error {
	if *objects > 0 {
		return fillObjects(ctx, s, *objects)
	}
	v, err := s.open()
	if err != nil {
		return err
	}
	defer v.close()
	raw := make([]byte, valueBytes)
	for i := range megabytes * 1_000_000 / base64.StdEncoding.EncodedLen(valueBytes) {
		rand.Read(raw) // never fails
		value := []byte(base64.StdEncoding.EncodeToString(raw))
		if _, err := v.kv.Put(ctx, &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "large/%06d", i), Value: value}); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
	}
	return nil
}

// fillSmall writes so many small keys through a member.
func fillSmall(ctx context.Context, s seat, keys int) error {
	v, err := s.open()
	if err != nil {
		return err
	}
	defer v.close()
	const perTxn = 100
	for i := 0; i < keys; i += perTxn {
		var txn etcdserverpb.TxnRequest
		for j := i; j < min(i+perTxn, keys); j++ {
			put := &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "small/%06d", j), Value: []byte("a value of a few bytes, as most are")}
			txn.Success = append(txn.Success, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: put}})
		}
		if _, err := v.kv.Txn(ctx, &txn); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
	}
	return nil
}

// ctl runs our queue client on a fleet's store, and gives what it printed after
// its first line.
func (f *fleet) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(f.b.bin, "etcd-manager-ctl"), append([]string{"--backup-store=" + f.store()}, args...)...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("etcd-manager-ctl %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(said))
	}
	_, rest, _ := strings.Cut(string(said), "\n")
	return rest, nil
}

// backup has a backup taken, and gives its name.
func (f *fleet) backup(ctx context.Context) (string, error) {
	said, err := f.ctl(ctx, "create-backup")
	if err != nil {
		return "", err
	}
	command := strings.TrimSpace(strings.TrimPrefix(said, "added backup command: "))
	var name string
	_, err = poll(ctx, func(ctx context.Context) error {
		all, err := f.ctl(ctx, "list-commands", "--all")
		if err != nil {
			return err
		}
		for line := range strings.Lines(all) {
			if !strings.HasPrefix(line, command) {
				continue
			}
			_, after, done := strings.Cut(strings.TrimSpace(line), ": backup ")
			if done {
				name = after
				return nil
			}
		}
		return fmt.Errorf("command %s was not run yet", command)
	})
	return name, err
}

// peak watches the anonymous memory of the daemons until it is told to stop, and
// gives by how much the largest grew, in MiB.
func (f *fleet) peak() (stop func() float64) {
	base, most := map[int]int{}, 0
	done := make(chan struct{})
	var watching sync.WaitGroup
	look := func() {
		for _, h := range f.hosts {
			u, err := usageOf(h.pid())
			if err != nil {
				continue
			}
			if _, known := base[h.pid()]; !known {
				base[h.pid()] = u.rssKiB
			}
			most = max(most, u.rssKiB-base[h.pid()])
		}
	}
	look()
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				look()
			}
		}
	})
	return func() float64 {
		close(done)
		watching.Wait()
		return float64(most) / 1024
	}
}
