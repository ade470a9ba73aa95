package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// describe puts the facts together.
func (h *Host) describe(p cluster.Process, f seen) cluster.HostState {
	releases := slices.Clone(h.o.Releases())
	slices.SortFunc(releases, cluster.Version.Compare)
	h.mu.Lock()
	s := h.state
	out := cluster.HostState{
		Host: h.o.ID, Disk: s.Disk, Beat: s.Beat, Cluster: h.o.ClusterName, Address: h.o.Address, Clock: time.Now(),
		Promised: s.Promised, LowestGeneration: s.LowestGeneration, Intent: record.CopyIntent(s.Intent),
		URLs: record.CopyURLs(h.o.URLs), Releases: releases,
		Local: record.CopyLocal(s.Local), Process: p, Status: f.status, View: f.view, Reaches: f.reaches,
		Highest: h.highest, SetAside: slices.Clone(h.aside), PruneAfter: h.o.PruneAfter, Settings: slices.Clone(h.o.Settings), Foreign: slices.Clone(h.foreign),
		GaveUp: slices.Clone(s.Carried), Voted: slices.Clone(s.Voted),
	}
	if h.theirs != nil {
		t := *h.theirs
		out.Predecessor = &t
	}
	out.FailedRelease = h.failedRelease
	out.Problems = h.problems(s)
	if h.broken != nil {
		// What could not be read may be anything; a host like this must not
		// look like one that holds no member's data.
		out.Foreign = append(out.Foreign, cluster.SetAside{Reason: h.broken.Code})
	}
	if h.taken != nil {
		t := *h.taken
		out.Taken = &t
	}
	if h.drill != nil {
		t := *h.drill
		out.Drill = &t
	}
	if h.hash != nil {
		t := *h.hash
		out.Hash = &t
	}
	if h.database != nil {
		t := *h.database
		out.Database = &t
	}
	h.mu.Unlock()
	if h.o.Problems != nil {
		out.Problems = append(out.Problems, h.o.Problems()...)
	}
	if h.o.PeerTLS != nil {
		out.PeerTLS = h.o.PeerTLS(s.Local.Token)
	}
	out.Staged = h.staged(s)
	if h.o.Sources != nil {
		out.Room = h.o.Sources.Room()
		out.Decrypts = h.o.Decrypts != nil && h.o.Decrypts()
		if f.status == nil && p.State == cluster.ProcessRunning && s.Local.Token != "" {
			out.Received = h.o.Sources.Received(s.Local.Token)
			// The process was looked at before the member was asked, which can take
			// up to its time-out; the two are compared, so they tell of one moment.
			if now := h.o.Process.Status(); now.PID == p.PID {
				out.Process.Uptime = now.Uptime
			}
		}
	}
	out.Local.HasData = f.wal && (f.marked || s.Local.State != cluster.MemberStarted)
	if f.dataErr != nil {
		out.Local.HasData = s.Local.State != cluster.MemberPrepared // unknown is not absent
		out.Problems = append(out.Problems, cluster.Problem{
			Code:     "data-unreadable",
			Sentence: fmt.Sprintf("host %s cannot read its member's data directory: %v", s.Host, f.dataErr),
			Hint:     "repair the disk", Unfit: true,
		})
	}
	v := launchVersion(s, releases)
	out.Options, out.FailedOptions = h.options(v)
	if p, is := h.leftOut(v); is && s.Launch != nil {
		out.Problems = append(out.Problems, p)
	}
	return out
}

// noteData notes that a running member's data is gone, while it still serves.
// s is the state from before the look: a member that was found started since
// may have had no log yet when it was looked for.
func (h *Host) noteData(s record.State, f seen) {
	if s.Local.State != cluster.MemberStarted || s.Journal != nil || f.dataErr != nil {
		return
	} else if !f.marked || !f.wal {
		h.noteVanished(s)
		return
	}
	h.clear("data-vanished")
}

func foreignHint(f cluster.SetAside) string {
	if f.Reason == record.ForeignPredecessor {
		return "docs/operations/predecessor.md tells how it is taken over"
	}
	return "move it out of the data directory if it is not needed; nothing is started beside it"
}

// launchVersion is the release that a member started now would be of.
func launchVersion(s record.State, releases []cluster.Version) cluster.Version {
	if !s.Local.Version.IsZero() || len(releases) == 0 {
		return s.Local.Version
	}
	return releases[len(releases)-1]
}

// stallTold is how long a write of the state takes before people are told. A busy
// disk takes a second at times.
const stallTold = 5 * time.Second

// stall says that the disk stands still, if it does; the caller holds the mutex.
// The moment is told and not how long ago it was, so that nothing new is said at
// each look.
func (h *Host) stall() string {
	if h.saveBegan.IsZero() || time.Since(h.saveBegan) < stallTold {
		return ""
	}
	return fmt.Sprintf("its disk has not ended a write that began at %s", h.saveBegan.UTC().Format(time.RFC3339))
}

// problems lists what a person should know; the caller holds the mutex.
func (h *Host) problems(s record.State) []cluster.Problem {
	var out []cluster.Problem
	if h.broken != nil {
		out = append(out, *h.broken)
	}
	for _, code := range slices.Sorted(maps.Keys(h.noted)) {
		out = append(out, h.noted[code])
	}
	switch {
	case errors.Is(h.saveErr, fs.ErrNotExist):
		out = append(out, cluster.Problem{
			Code:     "state-vanished",
			Sentence: fmt.Sprintf("the state directory of host %s is gone under the running daemon, so it promises nothing and carries out nothing: %v", h.o.ID, h.saveErr),
			Hint:     "once every other voter is up, stop this daemon with its etcd and start it again: the host joins anew with an empty disk", Unfit: true,
		})
	case h.stall() != "":
		out = append(out, cluster.Problem{
			Code:     "state-not-written",
			Sentence: fmt.Sprintf("host %s cannot write its state, so it promises nothing and carries out nothing: %s", h.o.ID, h.stall()),
			Hint:     "look at the disk of the data directory", Unfit: true,
		})
	case h.saveErr != nil:
		out = append(out, cluster.Problem{
			Code:     "state-not-written",
			Sentence: fmt.Sprintf("host %s cannot write its state, so it promises nothing and carries out nothing: %v", h.o.ID, h.saveErr),
			Hint:     "make room on the disk; where df shows that there is some, df -i shows whether it has inodes left", Unfit: true,
		})
	}
	if word := h.ownLook(); word != "" {
		out = append(out, cluster.Problem{
			Code:     "disk-unreadable",
			Sentence: fmt.Sprintf("host %s cannot look at its data directory: %s", h.o.ID, word),
			Hint:     "see whether the disk of the data directory, and other mounts that it has, answer; the host goes on by itself when they do", Unfit: true,
		})
	} else if h.inventErr != nil {
		out = append(out, cluster.Problem{
			Code:     "disk-unreadable",
			Sentence: fmt.Sprintf("host %s cannot list what lies in its data directory: %v", h.o.ID, h.inventErr),
			Hint:     "repair the disk", Unfit: true,
		})
	}
	for _, f := range h.foreign {
		if h.theirs != nil && f.Reason == record.ForeignPredecessor {
			continue // told by itself, with what it waits for
		}
		out = append(out, cluster.Problem{
			Code:     "foreign-data",
			Sentence: fmt.Sprintf("%s on host %s is not accounted for: %s", f.Dir, h.o.ID, f.Reason),
			Hint:     foreignHint(f), Unfit: true,
		})
	}
	return out
}
