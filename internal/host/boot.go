package host

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// start brings the machine in line with its record: it loads or makes the
// state, finishes what was begun, and adopts or starts the member. It asks
// neither leader nor store (SAFETY.md, rule 2).
func (h *Host) start(ctx context.Context) {
	up := make(chan struct{})
	defer close(up)
	defer h.work.Awaits("") // nothing
	h.work.WatchStart(up)
	h.work.Awaits("its state to be read from disk")
	fresh := h.load(ctx)
	h.pauses.Load()
	h.work.Awaits("the listing of its data directory")
	h.fences.Use() // unknown when it was; as late as it can have been
	h.inventory.Refresh()
	if h.keeper.Broken() != nil {
		return
	}
	t := h.work.BeginWait(ctx, cluster.Op{Kind: cluster.OpBoot})
	if t == nil {
		return
	}
	defer h.work.End(t)
	h.bring(ctx, fresh)
}

// bring brings process and data in line with the record for the first time; the
// caller runs a task. It is repeated while something foreign is in the way.
func (h *Host) bring(ctx context.Context, fresh bool) {
	s := h.keeper.Now()
	h.work.Awaits("a check for an etcd left running by an earlier daemon")
	found, ok := h.adopt(ctx, s)
	if !found && !fresh {
		a := asking{peers: h.o.AskPeers, of: s.Intent.VoterHosts(), elsewhere: h.o.Elsewhere, began: h.began, awaits: h.work.Awaits, memory: h.Memory}
		if used := a.settle(ctx, h.o.ID, s.Launch != nil); used != nil { // before anything is written
			blockInUse(h, used)
			return
		}
		h.notes.Clear("disk-in-use") // silence is consent (SAFETY.md, rule 9)
	}
	if found {
		h.Runs(s)
	}
	h.pauses.Began()
	h.inventory.FinishRemovals()
	if s.Journal != nil {
		h.work.Awaits("the data of a former member to be moved aside")
		_ = h.resume(ctx) // noted, and tried again by tick
		s = h.keeper.Now()
		found, ok = h.adopt(ctx, s)
	}
	h.work.Awaits("unfinished prepared data to be removed")
	h.staging.DropUnfinished(ctx)
	s = h.keeper.Now()
	if !found && !fresh && h.WentBack() {
		h.giveUp(ctx, ok, s.Journal == nil)
		return
	}
	h.asked.Store(true)
	starts := ok && s.Journal == nil && (found || fresh || h.mayStart(ctx, s))
	if !found && !fresh && h.WentBack() { // heard while that was asked
		h.giveUp(ctx, ok, s.Journal == nil)
		return
	}
	h.work.Awaits("its state to be written")
	h.advance(ctx)
	if !starts {
		return
	}
	if !found {
		h.work.Awaits("a check for data left by etcd-manager")
		h.takeover.LookAgain(ctx)
		h.takeover.Try(ctx)
	}
	h.converge(ctx, found)
}

// load reads the state, or makes one, in which case fresh is true: a disk ID
// that was minted just now is remembered by nobody.
func (h *Host) load(ctx context.Context) (fresh bool) {
	s, ok, err := h.o.Disk.Load()
	if err == nil && ok {
		err = s.Validate()
	}
	switch {
	case err != nil:
		hint := "repair the disk, or move the state directory away to start over as an empty host"
		if errors.As(err, new(*cluster.NewerError)) { // nothing is wrong with it
			hint = "start the etcdadm release that wrote it, or a later one; leave the data directory as it is"
		}
		h.keeper.Break(cluster.Problem{
			Code:     "state-unreadable",
			Sentence: fmt.Sprintf("host %s cannot read its state and does not start its member: %v", h.o.ID, err),
			Hint:     hint,
			Unfit:    true,
		})
		return false
	case ok && s.Host != h.o.ID:
		h.keeper.Break(cluster.Problem{
			Code:     "state-of-another-host",
			Sentence: fmt.Sprintf("the data directory belongs to host %s, but this daemon runs as host %s", s.Host, h.o.ID),
			Hint:     "give the daemon its own data directory; if no other daemon of that host runs, start it with the directory's host ID",
			Unfit:    true,
		})
		return false
	case ok && s.Cluster != h.o.ClusterName:
		h.keeper.Break(cluster.Problem{
			Code:     "state-of-another-cluster",
			Sentence: fmt.Sprintf("the data directory belongs to cluster %q, but this daemon was started for %q", s.Cluster, h.o.ClusterName),
			Hint:     "give each cluster a data directory of its own",
			Unfit:    true,
		})
		return false
	case ok:
		h.keeper.Loaded(s)
		h.Loaded(s)
		return false
	}
	err = h.keeper.Change(ctx, func(s *record.State) {
		*s = record.State{Format: record.StateFormat, Cluster: h.o.ClusterName, Host: h.o.ID, Disk: cluster.DiskID(h.o.Mint())}
	})
	h.NewDisk()
	if err != nil {
		h.keeper.Break(cluster.Problem{
			Code:     "state-not-writable",
			Sentence: fmt.Sprintf("host %s cannot create its state: %v", h.o.ID, err),
			Hint:     "free space on the disk or make the data directory writable, then start the daemon again",
			Unfit:    true,
		})
	}
	return true
}

// adopt takes over a process that an earlier daemon left. It returns ok ==
// false when something is there that is not ours: then nothing is started.
func (h *Host) adopt(ctx context.Context, s record.State) (found, ok bool) {
	h.block(obstacle{})
	if s.Launch == nil {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	found, err := h.o.Process.Adopt(ctx, *s.Launch)
	if err != nil {
		h.block(obstacle{"an unknown process is in the way: " + err.Error(), "stop that process"})
		h.notes.Note(cluster.Problem{
			Code:     "process-foreign",
			Sentence: fmt.Sprintf("host %s does not start its member: an unknown process is in the way: %v", s.Host, err),
			Hint:     "stop that process; the host checks again every 10 s",
			Unfit:    true,
		})
		return false, false
	}
	h.notes.Clear("process-foreign")
	return found, true
}

// mayStart asks whether the member may be started, which was not found running.
func (h *Host) mayStart(ctx context.Context, s record.State) bool {
	if h.o.MayStart == nil || s.Launch == nil {
		return true
	}
	h.work.Awaits("the other hosts' word on the record that they keep")
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	in, err := h.o.MayStart(asking)
	if err == nil && in.Order(s.Intent) > 0 { // it may supersede the member
		switch known := h.acceptable(in); {
		case known != nil:
			h.work.Awaits("its state to be written")
			err = h.keeper.Change(ctx, func(s *record.State) { keep(s, known) })
		case in.Generation > s.Local.Generation:
			err = fmt.Errorf("generation %d was founded, and its history does not have what this host knows", in.Generation)
		}
	}
	if err == nil {
		h.notes.Clear("other-record")
		return true
	}
	o := obstacle{err.Error(), hintOf(err, "see docs/operations/other-record.md")}
	h.block(o)
	h.notes.Note(cluster.Problem{
		Code:     "other-record",
		Sentence: fmt.Sprintf("host %s does not start its member: %s", s.Host, o.why),
		Hint:     o.hint,
		Unfit:    true,
	})
	return false
}

// block keeps ops from starting anything while something is in the way.
func (h *Host) block(o obstacle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked = o
}

// blockInUse has nothing written, started or promised while another daemon uses the disk.
func blockInUse(h *Host, by *cluster.Elsewhere) {
	o := obstacle{
		"the daemon at " + by.Endpoint + " runs as this host, with this disk or a copy of it",
		"end that daemon: delete its pod, or power off its machine; if this disk is a copy, end this daemon. This host goes on within 30 s after the other one was heard last",
	}
	h.block(o)
	h.notes.Note(cluster.Problem{Code: "disk-in-use", Sentence: fmt.Sprintf("host %s starts nothing and writes nothing: %s", h.o.ID, o.why), Hint: o.hint, Unfit: true})
}

// inUse is what is in the way of a host that has not heard yet whether its disk is another daemon's; without words: nothing is. Such a
// host tries again every 10 s, and nothing holds it up for a moment then.
func inUse(h *Host) obstacle {
	if h.Asked() {
		return obstacle{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blocked.why == "" {
		return obstacle{why: "it asks the other daemons what they know of its disk", hint: "ask again in a few seconds"}
	}
	return h.blocked
}

// giveUp makes the disk that is behind a new one, whatever else keeps the host from starting anything, once its data can be set
// aside. Until then the epoch stands still, and nothing is promised: a disk that caught up with what others remember of it would
// pass at a later start (SAFETY.md, rule 9). The host tries again every 10 s.
func (h *Host) giveUp(ctx context.Context, ok, idle bool) {
	h.asked.Store(false)
	if !ok { // and it is blocked
		return
	}
	if idle {
		h.forgetDisk(ctx, wentBack)
	}
	if h.WentBack() {
		h.block(obstacle{"its disk may lack what was written on it, and is not given up yet", "make the data directory writable"})
		return
	}
	h.notes.Clear("other-record") // there is no member to be started
	h.advance(ctx)
}

// advance writes the memory, and with it the next epoch of a disk that the others confirm. An epoch that
// could not be written is not told: the old one is.
func (h *Host) advance(ctx context.Context) {
	_ = h.keeper.Change(ctx, h.Put()) // reported by the keeper itself, and in the facts
}

// converge brings the process in line with the record; the caller runs a task.
// Adopted says that a process of the record was found running.
func (h *Host) converge(ctx context.Context, adopted bool) {
	s := h.keeper.Now()
	if s.Launch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopDeadline+startDeadline)
	defer cancel()
	if !s.WantsRun() {
		end := h.o.Process.Stop
		if s.Local.Generation < s.Floor() || s.Halt() != nil {
			end = h.o.Process.Kill
		}
		h.work.Awaits("its member to end")
		if err := end(ctx); err != nil {
			h.o.Log.Error("cannot stop the member", "err", err)
		}
		return
	}
	h.work.Awaits("a read of its member's data")
	marked, wal, err := h.o.Disk.Data(s.Local.Token, s.Disk)
	if err != nil {
		h.notes.Note(cluster.Problem{
			Code:     "data-unreadable",
			Sentence: fmt.Sprintf("host %s does not start its member: it cannot read the data directory: %v", s.Host, err),
			Hint:     "repair the disk; the host tries again every 10 s",
			Unfit:    true,
		})
		return
	}
	h.notes.Clear("data-unreadable")
	if record.Judge(s.Local, marked, wal) == record.Forgotten {
		if adopted { // it serves still; there will be no next start
			noteVanished(h.notes, s)
			return
		}
		h.forgetDisk(ctx, "its data was gone")
		return
	}
	h.evidence.NoticeLog()
	s = h.renewed(ctx, h.keeper.Now())
	h.work.Awaits("its member to start")
	if err := h.o.Process.Ensure(ctx, *s.Launch, h.evidence.Permit(s.Launch.Nonce)); err != nil {
		h.notes.Note(cluster.Problem{
			Code:     "member-not-started",
			Sentence: fmt.Sprintf("host %s cannot start its member: %v", s.Host, err),
			Hint:     hintOf(err, "fix that error") + "; the host tries again every 10 s", // etcd did not run, and its log has nothing of this
		})
		return
	}
	h.notes.Clear("member-not-started")
}

func noteVanished(notes *record.Notes, s record.State) {
	notes.Note(cluster.Problem{
		Code:     "data-vanished",
		Sentence: fmt.Sprintf("member %s runs, but its data directory is gone or belongs to another member; it cannot be restarted", s.Local.Member),
		Hint:     "once every other voter is up, etcdadm removes it and this host rejoins; if it is the only voter, take a backup now and add members on other hosts",
	})
}

// hintOf is what an error says can be done about it, or else what is given.
func hintOf(err error, other string) string {
	if hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok && hinted.Hint() != "" {
		return hinted.Hint()
	}
	return other
}
