package host

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// describe puts the facts together.
func (h *Host) describe(p cluster.Process, f seen) cluster.HostState {
	releases := slices.Clone(h.o.Releases())
	slices.SortFunc(releases, cluster.Version.Compare)
	s := h.keeper.Now()
	aside, foreign, _ := h.inventory.Listed()
	h.mu.Lock()
	out := cluster.HostState{
		Host: h.o.ID, Disk: s.Disk, Epoch: s.Epoch, Cluster: h.o.ClusterName, Address: h.o.Address, Clock: time.Now(),
		Promised: s.Promised, LowestGeneration: s.LowestGeneration, Intent: record.CopyIntent(s.Intent),
		URLs: record.CopyURLs(h.o.URLs), Releases: releases,
		Local: record.CopyLocal(s.Local), Process: p, Status: f.status, View: f.view, Reaches: f.reaches, Refused: h.member.Refused(),
		Highest: h.Highest(), SetAside: aside, PruneAfter: h.o.PruneAfter, Settings: slices.Clone(h.o.Settings), Foreign: foreign,
		GaveUp: slices.Clone(s.Carried), Voted: slices.Clone(s.Voted),
	}
	out.Predecessor = h.takeover.Waits()
	out.FailedRelease = h.settings.FailedRelease()
	out.Problems = h.problems()
	if broken := h.keeper.Broken(); broken != nil {
		// What could not be read may be anything; a host like this must not
		// look like one that holds no member's data.
		out.Foreign = append(out.Foreign, cluster.SetAside{Reason: broken.Code})
	}
	h.mu.Unlock()
	if h.o.Problems != nil {
		out.Problems = append(out.Problems, h.o.Problems()...)
	}
	if h.o.AuthorityKeys != nil {
		out.AuthorityKeys = h.o.AuthorityKeys()
	}
	if h.o.PeerTLS != nil {
		out.PeerTLS = h.o.PeerTLS(s.Local.Token)
	}
	if h.o.Authorities != nil {
		out.Authorities = h.o.Authorities()
	}
	out.TakesPauses, out.Paused, out.PauseRefused = h.pauses.Takes(), h.pauses.Now(s.Newest()), h.pauses.Refused()
	out.Staged = h.staging.Staged(s)
	h.backups.Report(&out)
	h.upkeep.Report(&out)
	if h.o.Sources != nil {
		out.FreeSpace = h.o.Sources.FreeSpace()
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
	out.Options, out.FailedOptions = h.settings.Options(v)
	if p, is := h.settings.LeftOut(v); is && s.Launch != nil {
		out.Problems = append(out.Problems, p)
	}
	out.LeftVariables = h.settings.LeftVariables()
	if s.Launch != nil {
		out.Problems = append(out.Problems, h.settings.VariableProblems(*s.Launch)...)
	}
	return out
}

// noteData notes that a running member's data is gone, while it still serves.
// s is the state from before the look: a member that was found started since
// may have had no log yet when it was looked for.
func noteData(notes *record.Notes, s record.State, f seen) {
	if s.Local.State != cluster.MemberStarted || s.Journal != nil || f.dataErr != nil {
		return
	} else if !f.marked || !f.wal {
		noteVanished(notes, s)
		return
	}
	notes.Clear("data-vanished")
}

func foreignHint(f cluster.SetAside) string {
	if f.Reason == record.ForeignPredecessor {
		return "see docs/operations/predecessor.md for how to take it over"
	}
	return "move it out of the data directory; until then no member is started here"
}

// launchVersion is the release that a member started now would be of.
func launchVersion(s record.State, releases []cluster.Version) cluster.Version {
	if !s.Local.Version.IsZero() || len(releases) == 0 {
		return s.Local.Version
	}
	return releases[len(releases)-1]
}

// problems lists what a person should know; the caller holds the mutex.
func (h *Host) problems() []cluster.Problem {
	out := append(h.keeper.Problems(), h.notes.All()...)
	_, foreign, unlisted := h.inventory.Listed()
	theirs := h.takeover.Waits()
	if word := h.work.OwnLook(); word != "" {
		out = append(out, cluster.Problem{
			Code:     "disk-unreadable",
			Sentence: fmt.Sprintf("host %s cannot read its data directory: %s", h.o.ID, word),
			Hint:     "check the disk of the data directory and the host's other mounts; the host goes on by itself once they answer", Unfit: true,
		})
	} else if unlisted != nil {
		out = append(out, cluster.Problem{
			Code:     "disk-unreadable",
			Sentence: fmt.Sprintf("host %s cannot list its data directory: %v", h.o.ID, unlisted),
			Hint:     "repair the disk", Unfit: true,
		})
	}
	for _, f := range foreign {
		if theirs != nil && f.Reason == record.ForeignPredecessor {
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
