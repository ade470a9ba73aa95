package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
)

// worldQueue is the part of the backup store that new generations are made of.
type worldQueue struct {
	commands []cluster.Command
	backups  []cluster.Backup // the newest first
	ended    []string
	interval time.Duration
	keeps    bool                      // the end of a command is recorded, and it is not taken out
	broken   map[cluster.HostID]string // why staging fails on a host; "*": the source itself
	unserved string                    // why another release does not serve a backup
	needs    int64                     // bytes that a stage takes, which only the host sees
	loses    string                    // the digest of what a change key by key loses
	unlisted bool                      // the daemons do not list what would be lost
	drills   time.Duration             // how long a rehearsal takes
	slow     bool                      // staging goes on until it is told to end
}

// queueCommand reads a line like "restore NAME lost=c,d", "recover HOST",
// "undo HOST dir=X", "backup-now" into the queue. seen=(G,R,I,F) after "accept-older"
// is what a person saw before an undo; clock=D is how far the clock of their machine is ahead.
func (w *world) queueCommand(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	w.minted++
	c := cluster.Command{Name: fmt.Sprintf("cmd-%d", w.minted), At: w.now, Kind: cluster.CommandKind(d.CmdArgs[0].Key)}
	if len(d.CmdArgs) > 1 && len(d.CmdArgs[1].Vals) == 0 {
		if c.Kind == cluster.CommandRestore {
			c.Backup = d.CmdArgs[1].Key
		} else {
			c.Host = cluster.HostID(d.CmdArgs[1].Key)
		}
	}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "lost":
			for _, v := range a.Vals {
				c.Lost = append(c.Lost, cluster.HostID(v))
			}
		case "dir":
			c.Dir = a.Vals[0]
		case "version":
			c.Version = cluster.MustVersion(a.Vals[0])
		case "no-backup":
			c.NoBackup = true
		case "accept-loss":
			c.AcceptLoss = a.Vals[0]
		case "members":
			c.Count = &cluster.CountChange{Was: w.spec.MemberCount, Version: w.spec.EtcdVersion}
			c.Count.Members, _ = strconv.Atoi(a.Vals[0])
		case "name":
			c.Name = a.Vals[0]
		case "clock": // of whoever queues it, beside that of the leader
			off, _ := time.ParseDuration(a.Vals[0])
			c.At = c.At.Add(off)
		case "accept-older":
			c.Seen = &cluster.Seen{AcceptOlder: true}
		case "seen": // generation, revision, index in the directory, furthest index
			c.Seen = cmp.Or(c.Seen, &cluster.Seen{})
			n := func(i int) uint64 { x, _ := strconv.ParseUint(a.Vals[i], 10, 64); return x }
			c.Seen.Generation, c.Seen.Revision = n(0), int64(n(1)) //nolint:gosec // of a test
			if n(2) > 0 {
				c.Seen.Log, c.Seen.Furthest = cluster.Progress{Term: 2, Index: n(2)}, cluster.Progress{Term: 2, Index: n(3)}
			}
		}
	}
	w.queue.commands = append(w.queue.commands, c)
	return ""
}

// addBackup reads "backup NAME 3.6.16", and "encrypted" after it.
func (w *world) addBackup(d *datadriven.TestData) string {
	b := cluster.Backup{Name: d.CmdArgs[0].Key, At: w.now, Version: cluster.MustVersion(d.CmdArgs[1].Key), Revision: 1000, SHA256: "digest-" + d.CmdArgs[0].Key}
	b.Encrypted = d.HasArg("encrypted")
	for _, a := range d.CmdArgs {
		if a.Key == "reason" {
			b.Reason = a.Vals[0]
		}
		if a.Key == "mib" {
			mib, _ := strconv.ParseInt(a.Vals[0], 10, 64)
			b.Bytes = mib << 20
		}
	}
	if d.HasArg("doubtful") {
		b.Doubt = "the manifest is malformed"
	}
	w.queue.backups = append([]cluster.Backup{b}, w.queue.backups...)
	return ""
}

// see puts queue and catalogue into an observation.
func (w *world) see(o *cluster.Observation) {
	o.Backups = cluster.BackupsView{At: w.clock(w.leader), Interval: w.queue.interval, Newest: w.queue.backups[:min(len(w.queue.backups), 3)]}
	if w.store.silent {
		return
	}
	for _, c := range w.queue.commands {
		if c.Kind == cluster.CommandRestore {
			c.Missing = true
			for _, b := range w.queue.backups {
				if b.Name == c.Backup {
					c.Missing, c.Found = false, &b
				}
			}
		}
		o.Commands = append(o.Commands, c)
	}
}

// stage makes a source ready at once.
func (w *world) stage(h *worldHost, op cluster.Op) error {
	if op.Source.Kind == cluster.SourceSurvivor && h.Local.Run {
		return fmt.Errorf("its member is not stopped")
	}
	if op.Source.Kind == cluster.SourceHalted && (!h.halted() || h.Intent.Halt.ID != op.Command) {
		return fmt.Errorf("it is not halted for that")
	}
	w.minted++
	s := &cluster.Staged{
		Command: op.Command, Source: *op.Source, State: cluster.StageReady, Since: w.now.Add(h.skew), Token: fmt.Sprintf("staged-%d", w.minted),
		Version: op.Version, PeerURLs: h.URLs.Peer, Cluster: clusterOfGeneration(op.Generation), Member: cluster.MemberID(op.Generation*0x100 + 1),
	}
	s.Source.Tool = op.Version.String()
	if why := w.queue.broken[h.Host]; why != "" {
		s.State, s.Reason = cluster.StageFailed, why
	}
	if why := w.queue.broken["*"]; why != "" {
		s.State, s.Reason, s.Hopeless = cluster.StageFailed, why, true
	}
	// Only a halt can be taken back, and a backup is made ready before anything is stopped: from any other source key by key, any list is accepted.
	byKey := op.Source.Kind == cluster.SourceHalted && !op.Version.ReadsSnapshot(op.Source.Wrote)
	restored := op.Source.Kind == cluster.SourceBackup && op.Version.Has(cluster.V3API) && !op.Source.Wrote.IsZero() && !op.Source.Wrote.Has(cluster.V3API) && op.Source.Accept != cluster.AcceptAny
	if (byKey || restored) && w.queue.loses != op.Source.Accept {
		s.Hopeless = restored
		s.State, s.Reason = cluster.StageFailed, "another list than the one that was accepted"
	}
	if need := w.queue.needs; need > h.FreeSpace { // the host sees only when it has begun
		s.State, s.Reason, s.Needs = cluster.StageFailed, "not enough space on the disk", need
	}
	if w.queue.slow && s.State == cluster.StageReady {
		s.State = cluster.StageBuilding
	}
	h.Staged = s
	return nil
}

// stagesEnd makes ready what is being made ready.
func (w *world) stagesEnd() {
	w.queue.slow = false
	for _, h := range w.hosts {
		if generation.UnderWay(h.Staged) {
			s := *h.Staged
			s.State, s.Since = cluster.StageReady, w.now.Add(h.skew)
			h.Staged = &s
		}
	}
}

// putCount writes a member count into the spec.
func (w *world) putCount(c *cluster.CountChange) error {
	switch {
	case w.store.silent:
		return fmt.Errorf("the store does not answer")
	case !c.Over(w.spec):
		return fmt.Errorf("somebody changed the spec")
	}
	s := c.Apply(*w.spec)
	w.spec = &s
	return nil
}

func (w *world) takeBackup(h *worldHost, op cluster.Op) error {
	w.minted++
	now := w.now.Add(h.skew)
	b := cluster.Backup{Name: fmt.Sprintf("b-%d", w.minted), At: now, Version: h.Local.Version, Revision: int64(w.minted), Reason: op.Reason}
	if c := w.clusterOf(h); c != nil {
		b.Cluster, b.Term, b.Index = c.id, c.term, c.index
	}
	h.Taken = &cluster.Taken{Began: now, Ended: now, Reason: op.Reason, Command: op.Command, Backup: &b}
	w.queue.backups = append([]cluster.Backup{b}, w.queue.backups...)
	return nil
}

func (w *world) endCommand(e *decision.CommandEnd) error {
	for i, c := range w.queue.commands {
		if c.Name == e.Name && w.queue.keeps {
			w.queue.commands[i].Ended, w.queue.keeps = string(e.Result), false
			return nil
		}
		if c.Name == e.Name {
			w.queue.commands = append(w.queue.commands[:i:i], w.queue.commands[i+1:]...)
			w.queue.ended = append(w.queue.ended, fmt.Sprintf("%s %s: %s", e.Name, e.Result, e.Reason))
			return nil
		}
	}
	return fmt.Errorf("no command %s", e.Name)
}

// readLog adds the end of the member's log when a recovery asks for it.
func (w *world) readLog(h *worldHost, r *cluster.HostReport) {
	c := w.clusterOf(h)
	if c != nil && w.spec != nil && w.spec.AutoRecoverAfter > 0 {
		r.Log = &cluster.Progress{Term: c.term, Index: c.index}
	}
	if c != nil && h.halted() {
		r.Log = &cluster.Progress{Term: c.term, Index: c.index}
		if h.stuck {
			r.Log.Index /= 2
		}
	}
	for _, q := range w.queue.commands {
		if c == nil || q.Kind != cluster.CommandRecover {
			continue
		}
		r.Log = &cluster.Progress{Term: c.term, Index: c.index}
		if h.stuck {
			r.Log.Index /= 2
		}
	}
	if h.reading && r.Log != nil {
		r.Log, r.Reading = nil, &cluster.LogReading{Bytes: 3 << 20, Of: 64 << 20}
	}
}

// supersede stops what an intent that the host keeps has superseded.
func (h *worldHost) supersede() {
	if h.Intent.Adopts(h.Host, h.Disk, h.Local) {
		h.Local.Generation, h.Local.Nonce = h.Intent.Generation, h.Intent.Nonce
	}
	if h.Intent != nil && h.Local.Generation != 0 && h.Local.Generation < h.Intent.Generation {
		h.Local.Run = false
	}
}
