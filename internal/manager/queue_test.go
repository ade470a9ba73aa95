package manager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// shelf is a Catalogue; like the real one it describes the newest few only.
type shelf struct {
	all    []cluster.Backup // the newest first
	err    error            // of Find and Proven
	denied error            // of List
	walked int
	lists  int
}

func (s *shelf) List(context.Context) ([]cluster.Backup, error) {
	s.lists++
	return s.all[:min(len(s.all), newestShown)], s.denied
}

func (s *shelf) Proven(context.Context) (cluster.Backup, bool, error) {
	s.walked++
	i := slices.IndexFunc(s.all, func(b cluster.Backup) bool { return b.Proven })
	if i < 0 || s.err != nil {
		return cluster.Backup{}, false, s.err
	}
	return s.all[i], true, nil
}

func (s *shelf) Encrypted() (cluster.Backup, bool) {
	i := slices.IndexFunc(s.all, func(b cluster.Backup) bool { return b.Encrypted })
	if i < 0 {
		return cluster.Backup{}, false
	}
	return s.all[i], true
}

func (s *shelf) Listed(ctx context.Context, name string) (cluster.Backup, bool, error) {
	return s.Find(ctx, name)
}

func (s *shelf) Find(_ context.Context, name string) (cluster.Backup, bool, error) {
	i := slices.IndexFunc(s.all, func(b cluster.Backup) bool { return b.Name == name })
	if i < 0 || s.err != nil {
		return cluster.Backup{}, false, s.err
	}
	return s.all[i], true, nil
}

// The newest proven backup is the cluster's own, also of before it was restored, whatever somebody copied into the store since. Where
// it has none yet, it is what the cluster may have been made of.
func TestNewestProvenIsItsOwn(t *testing.T) {
	now := time.Now()
	of := func(name string, age time.Duration, id cluster.ClusterID) cluster.Backup {
		return cluster.Backup{Name: name, At: now.Add(-age), Proven: true, Cluster: id}
	}
	for want, all := range map[string][]cluster.Backup{
		"own":    {of("copied", 1, 9), of("unknown", 2, 0), of("own", 3, 7), of("former", 4, 6)},
		"former": {of("copied", 1, 9), of("former", 4, 6)},
		"copied": {of("copied", 1, 9), of("unknown", 2, 0)},
	} {
		s := &shelf{all: all}
		l := look{at: now, view: cluster.StoreView{Intent: &cluster.Intent{Generation: 2, Cluster: 7, History: []cluster.PastGeneration{{Generation: 1, Cluster: 6}}}}}
		if l.listBackups(t.Context(), watching(s).Watcher); l.queue.backups.Proven == nil || l.queue.backups.Proven.Name != want {
			t.Errorf("the newest proven one is %+v, want %s", l.queue.backups.Proven, want)
		}
	}
}

// A store that does not list its backups says why, until it does.
func TestUnlistedBackups(t *testing.T) {
	s := &shelf{denied: errors.New("403 SignatureDoesNotMatch")}
	m, l := watching(s), &look{at: time.Now()}
	l.listBackups(t.Context(), m.Watcher)
	if b := l.queue.backups; !b.At.IsZero() || b.Unlisted != "403 SignatureDoesNotMatch" {
		t.Errorf("denied: %+v", b)
	}
	s.denied = nil
	l.listBackups(t.Context(), m.Watcher)
	if b := l.queue.backups; b.At.IsZero() || b.Unlisted != "" {
		t.Errorf("listed: %+v", b)
	}
}

// The newest proven backup is known as long as it is there and good, however
// many came after it; the store is looked through for it only once.
func TestNewestProven(t *testing.T) {
	s := &shelf{}
	m := watching(s)
	now := time.Now()
	put := func(name string, proven bool) {
		now = now.Add(time.Minute)
		s.all = append([]cluster.Backup{{Name: name, At: now, Proven: proven}}, s.all...)
	}
	var l look
	known := func(want string) {
		t.Helper()
		now = now.Add(time.Hour)
		l.at = now
		l.listBackups(t.Context(), m.Watcher)
		got := ""
		if p := l.queue.backups.Proven; p != nil {
			got = p.Name
		}
		if got != want {
			t.Fatalf("the newest proven one is %q, want %q", got, want)
		}
	}
	known("")
	put("b1", true)
	known("b1")
	for _, name := range []string{"b2", "b3", "b4", "b5"} {
		put(name, false)
	}
	known("b1")
	if s.walked != 1 {
		t.Errorf("looked through the store %d times", s.walked)
	}
	s.all[1].Proven = true // b4, among the newest few
	known("b4")
	put("b6", false)
	put("b7", false)
	put("b8", false)
	known("b4")

	// A host has tried out one that was the newest then.
	s.all[2].Proven = true // b6
	put("b9", false)
	known("b4")
	m.seen = &cluster.Observation{Hosts: []cluster.HostReport{{HostState: cluster.HostState{Drill: &cluster.Taken{Backup: &cluster.Backup{Name: "b6"}}}}}}
	known("b6")

	// What cannot be looked at is not known, and is looked for again.
	m.seen = nil
	s.err = errors.New("the store is gone")
	known("")
	s.err = nil
	known("b6")

	// It went bad, or was removed.
	i := slices.IndexFunc(s.all, func(b cluster.Backup) bool { return b.Name == "b6" })
	s.all[i].Proven = false
	known("")

	// Another leader sees what this one has not.
	l = look{}
	known("b4")
}

// What hosts in sight did with backups is seen at once, by one list of the
// store; otherwise it is listed seldom. When one was last tried out stays known
// when it is no longer among the newest, and the host has forgotten.
func TestOwnBackupsAreSeenAtOnce(t *testing.T) {
	s := &shelf{}
	m := watching(s)
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var l look
	passes := func(want int) {
		t.Helper()
		for range 3 { // seconds apart
			now = now.Add(2 * time.Second)
			l.at = now
			l.listBackups(t.Context(), m.Watcher)
		}
		if s.lists != want {
			t.Fatalf("the store was listed %d times, want %d", s.lists, want)
		}
	}
	says := func(change func(h *cluster.HostState)) {
		o := &cluster.Observation{Hosts: []cluster.HostReport{{HostState: cluster.HostState{Host: "a"}}}}
		change(&o.Hosts[0].HostState)
		m.seen = o
	}
	s.all = []cluster.Backup{{Name: "b1", At: now}}
	passes(1)
	says(func(h *cluster.HostState) { h.Drill = &cluster.Taken{Running: true, Began: now} })
	passes(1)
	drilled := now
	s.all[0].Proven, s.all[0].Drilled = true, drilled
	says(func(h *cluster.HostState) { h.Drill = &cluster.Taken{Began: now, Ended: now, Backup: &s.all[0]} })
	passes(2)
	if b := l.queue.backups; b.Proven == nil || !b.Newest[0].Drilled.Equal(drilled) || !b.Drilled.Equal(drilled) {
		t.Fatalf("the drill is not seen: %+v", b)
	}
	for i := range 4 {
		s.all = append([]cluster.Backup{{Name: "later" + string(rune('0'+i)), At: now, Proven: true}}, s.all...)
	}
	says(func(h *cluster.HostState) { h.Taken = &cluster.Taken{Began: now, Ended: now, Backup: &s.all[0]} })
	passes(3)
	if b := l.queue.backups; b.Newest[0].Name != "later3" || !b.Drilled.Equal(drilled) {
		t.Fatalf("the new ones are not seen, or the drill is forgotten: %+v", b)
	}
	now = now.Add(backupsEvery)
	passes(4)
}

// The newest encrypted backup is known however many plain ones came after it, and no
// longer than it is there.
func TestNewestEncrypted(t *testing.T) {
	s := &shelf{}
	m := watching(s)
	now := time.Now()
	var l look
	for i, name := range []string{"b1", "b2", "b3", "b4", "b5", "b6"} {
		now = now.Add(time.Hour)
		s.all = append([]cluster.Backup{{Name: name, At: now, Encrypted: i == 1}}, s.all...)
		l.at = now
		l.listBackups(t.Context(), m.Watcher)
		if e := l.queue.backups.Encrypted; (e != nil) != (i >= 1) || e != nil && e.Name != "b2" {
			t.Errorf("after %s: %+v", name, e)
		}
	}
	s.all = s.all[:2]
	l.at = now.Add(time.Hour)
	l.listBackups(t.Context(), m.Watcher)
	if e := l.queue.backups.Encrypted; e != nil {
		t.Errorf("it is gone: %+v", e)
	}
}

// watched is a watcher of a catalogue, with what a leader of this host saw last.
type watched struct {
	*Watcher
	seen *cluster.Observation
}

func watching(c Catalogue) *watched {
	w := &watched{}
	w.Watcher = NewWatcher(WatchOptions{Catalogue: c, Say: func(string, string, error) {}, Observed: func() *cluster.Observation { return w.seen }})
	return w
}
