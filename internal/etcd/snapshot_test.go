package etcd_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// A snapshot is a database and its SHA-256, with every key that was there when
// it began; one member's hash of the keys is another's.
func TestSnapshotAndHash(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, _ := start(t, testetcd.Config{Version: version, Members: 3, TLS: true})
		ctx := within(t, time.Minute)
		client := c.Client(t)
		for i := range 300 {
			if _, err := client.Put(ctx, fmt.Sprintf("/key/%03d", i), strings.Repeat("x", 4096)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.Compact(ctx, 100); err != nil {
			t.Fatal(err)
		}
		d := drive(t, c, 0)
		// etcd 3.6 puts the storage version into its file seconds after its start.
		var s *etcd.Snapshot
		until(t, 30*time.Second, "snapshot with what is known of its version", func() (err error) {
			if s, err = d.Snapshot(ctx); err == nil && s.StorageVersion == "" && version != testetcd.V35 {
				return errors.Join(errors.New("it has no storage version yet"), s.Close())
			}
			return err
		})
		defer s.Close()
		data, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) != s.Size+sha256.Size || s.Size < 300*4096 {
			t.Fatalf("%d bytes, announced %d", len(data), s.Size)
		}
		sum := sha256.Sum256(data[:s.Size])
		if !bytes.Equal(sum[:], data[s.Size:]) {
			t.Error("what follows the database is not its SHA-256")
		}
		if !bytes.Contains(data, []byte("/key/299")) {
			t.Error("the last key is not in it")
		}
		if got := s.StorageVersion; (version == testetcd.V35) != (got == "") {
			t.Errorf("storage version %q of etcd %s", got, version)
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %d, %v", n, err)
		}
		hashesAgree(ctx, t, c)
	})
}

func hashesAgree(ctx context.Context, t *testing.T, c *testetcd.Cluster) {
	t.Helper()
	var first etcd.KVHash
	for i := range c.Members {
		d := drive(t, c, i)
		s := status(t, d)
		var h etcd.KVHash
		until(t, 10*time.Second, "follower has all keys", func() (err error) {
			h, err = d.HashKV(ctx, 301)
			if err == nil && h.Compacted != 100 {
				return errors.New("not yet compacted")
			}
			return err
		})
		if h.Member != s.Member || h.Cluster != s.Cluster || h.Revision != 301 || h.Compacted != 100 || h.Current != 301 || h.Hash == 0 {
			t.Errorf("member %d: %+v", i, h)
		}
		if i == 0 {
			first = h
		} else if h.Hash != first.Hash {
			t.Errorf("member %d has hash %d, member 0 %d", i, h.Hash, first.Hash)
		}
	}
	d := drive(t, c, 0)
	newest, err := d.HashKV(ctx, 0)
	if err != nil || newest.Revision != 301 || newest.Hash != first.Hash {
		t.Errorf("of the newest: %+v, %v", newest, err)
	}
	_, err = d.HashKV(ctx, 50)
	wantErr(t, "hash of what was compacted", err, etcd.ErrCompacted)
	_, err = d.HashKV(ctx, 5000)
	wantErr(t, "hash of what is to come", err, etcd.ErrFutureRevision)
}

// A snapshot needs the root role; ends with its context, with Close and with
// the member.
func TestSnapshotEnds(t *testing.T) {
	t.Parallel()
	c, _ := start(t, testetcd.Config{Version: testetcd.V37, TLS: true})
	ctx := within(t, time.Minute)
	client := c.Client(t)
	// More than gRPC's windows and etcd's own buffers hold, so that the stream
	// is still under way when it is cut.
	for i := range 32 {
		if _, err := client.Put(ctx, fmt.Sprintf("/key/%03d", i), strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	d := drive(t, c, 0)

	own, cancel := context.WithCancel(ctx)
	s := begin(own, t, d)
	cancel()
	_, err := io.ReadAll(s)
	wantErr(t, "read after the context ended", err, context.Canceled)
	wantErr(t, "read after the context ended", err, etcd.ErrNoAnswer)

	s = begin(ctx, t, d)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	_, err = io.ReadAll(s)
	wantErr(t, "read after close", err, etcd.ErrClosed)

	enableAuth(ctx, t, client)
	none := drive(t, c, 0)
	_, err = none.Snapshot(ctx)
	wantErr(t, "snapshot without a credential", err, etcd.ErrAuthRequired)
	_, err = none.HashKV(ctx, 0)
	wantErr(t, "hash without a credential", err, etcd.ErrAuthRequired)
	root := drive(t, c, 0, "root", "secret")
	s = begin(ctx, t, root)
	if err := c.Kill(ctx, 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(s)
	wantErr(t, "read from a dead member", err, etcd.ErrNoAnswer)
	_, err = root.Snapshot(ctx)
	wantErr(t, "snapshot of a dead member", err, etcd.ErrUnreachable)
}

// begin begins a snapshot and reads a little of it.
func begin(ctx context.Context, t *testing.T, d *etcd.Client) *etcd.Snapshot {
	t.Helper()
	s, err := d.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := io.ReadFull(s, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	return s
}
