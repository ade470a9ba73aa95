package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/internal/testetcd"
)

// An alarm comes with the database into every backup, and etcd says that it is not
// healthy under one: what it holds can be tried out all the same.
func TestDrillUnderAnAlarm(t *testing.T) {
	t.Parallel()
	for _, version := range append(testetcd.Versions(), testetcd.V34) {
		t.Run(version, func(t *testing.T) {
			c := testetcd.Start(t, testetcd.Config{Version: version})
			client := c.Client(t)
			put(t, client, "k", "v")
			members, err := client.MemberList(within(t))
			must(t, err)
			for _, alarm := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
				_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(within(t), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: members.Members[0].ID, Alarm: alarm})
				must(t, err)
			}
			file := filepath.Join(t.TempDir(), "s.db")
			save(t, client, file)
			info, err := Verify(within(t), file)
			must(t, err)
			if info.Alarms != 2 {
				t.Fatalf("the snapshot has %d alarms", info.Alarms)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it would wait on
			defer cancel()
			d, err := Drill(ctx, DrillOptions{Snapshot: file, Verified: info.SHA256, Site: filepath.Join(t.TempDir(), "drill"), Release: theRelease(t, version)})
			if err != nil || !d.Proven {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// Much data on a slow disk is waited for longer, and its holes count as data.
func TestServesWithinHasTimeForTheData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if within := ServesWithin(filepath.Join(data, "none")); within != servesAtLeast {
		t.Errorf("of no directory: %s", within)
	}
	must(t, os.MkdirAll(filepath.Join(data, "member", "snap"), 0o700))
	db := filepath.Join(data, "member", "snap", "db")
	must(t, os.WriteFile(db, nil, 0o600))
	must(t, os.Truncate(db, 8<<30))
	if within, want := ServesWithin(data), servesAtLeast+4096*time.Second; within != want {
		t.Errorf("of 8 GiB: %s, want %s", within, want)
	}
}

// A throw-away etcd that runs and comes to nothing is given up by whoever waits for it,
// also where nobody else bounds that.
func TestAThrowAwayEtcdIsNotWaitedForWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s, err := openSite(within(t), filepath.Join(t.TempDir(), "site"))
	must(t, err)
	defer func() { must(t, s.close()) }()
	r := theRelease(t, testetcd.V37)
	r.Etcd = hangs(t)
	srv, err := startServer(r, s, s.path("data"))
	must(t, err)
	defer srv.kill()

	const bound = 100 * time.Millisecond
	err = srv.serves(t.Context(), bound)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "is healthy: no result within 100ms") || !strings.Contains(err.Error(), "check whether the disk is slower") {
		t.Errorf("healthy: %v", err)
	}
	snap := t.TempDir()
	err = srv.applied(t.Context(), snap, 5, bound)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has applied entry 5: no result within 100ms") {
		t.Errorf("applied: %v", err)
	}

	// One that comes on is waited for, however long.
	const patient, last = time.Second, 15
	began := time.Now()
	go func() {
		for index := uint64(1); index <= last; index++ {
			time.Sleep(patient / 10) // a busy machine may take several times that
			_ = os.WriteFile(filepath.Join(snap, fmt.Sprintf("%016x-%016x.snap", 1, index)), nil, 0o600)
		}
	}()
	if err := srv.applied(within(t), snap, last, patient); err != nil || time.Since(began) < patient {
		t.Errorf("one that comes on, after %s: %v", time.Since(began), err)
	}
}

// The hash has the time that the data takes to be read, and no other bound; the end of it
// says what was waited for.
func TestAHashIsNotWaitedForWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s, err := openSite(within(t), filepath.Join(t.TempDir(), "site"))
	must(t, err)
	defer func() { must(t, s.close()) }()
	l, err := net.Listen("unix", s.path(peerSocket)) // it takes requests, and answers none
	must(t, err)
	defer l.Close()
	srv := &server{site: s}

	began := time.Now()
	_, err = srv.hashKV(t.Context(), 1, 100*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "tells its hash: no result within 100ms") {
		t.Error(err)
	}
	if took := time.Since(began); took > askWithin/2 {
		t.Errorf("it took %s", took)
	}
}
