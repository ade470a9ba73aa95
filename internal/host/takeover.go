package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// How often what keeps a member of etcd-manager from being taken over is looked at
// again: no event tells that somebody else's process ended, and others count a
// member as lost after a minute.
const (
	heldEvery  = 500 * time.Millisecond // another program's etcd runs on it: once that ends, the member is out of service
	waitsEvery = 5 * time.Second        // something that a person has to change first
)

// takeOver begins to run the member that etcd-manager left on this host, as it
// left it: same ID, URLs, release, certificates (docs/adr/016-adoption.md). It
// asks no leader (SAFETY.md, rule 2), only the store, whose marker has to be
// etcd-manager's still: it is what says that no later generation was founded. The
// caller runs a task.
func (h *Host) takeOver(ctx context.Context) {
	s := h.snapshot()
	if s.Launch != nil || s.Local.State != cluster.MemberNone || s.Journal != nil {
		h.setTheirs(nil)
		return
	}
	p, err := h.o.Disk.Predecessor(s.Host, s.Disk)
	switch {
	case err != nil:
		h.setTheirs(&cluster.Predecessor{Waits: err.Error(), Hint: "make the data directory readable"})
		return
	case p == nil:
		h.setTheirs(h.enter(ctx, s))
		return
	}
	report := &cluster.Predecessor{Token: p.Token, Cluster: p.Cluster, Member: p.Member, Held: p.Held != nil}
	launch, why, hint := h.launchOf(ctx, s, p)
	if why == "" {
		err := h.o.Disk.TakeOver(p.Token, s.Disk)
		if err == nil {
			err = h.recordTaken(ctx, p, launch)
		}
		if err == nil {
			h.o.Log.Info("took over the member that etcd-manager ran here", "member", p.Member, "of cluster", p.Cluster, "version", launch.Version)
			h.setTheirs(nil)
			h.takeInventory()
			return
		}
		why, hint = err.Error(), "make the data directory writable"
	}
	report.Waits, report.Hint = why, hint
	h.setTheirs(report)
}

// recordTaken makes the member this host's own. The mark of this disk lies beside
// its log by then; a crash in between is finished by the next look.
func (h *Host) recordTaken(ctx context.Context, p *record.Predecessor, l record.Launch) error {
	return h.save(ctx, func(s *record.State) {
		s.Launch, s.Before = &l, nil
		s.Local = cluster.LocalMember{
			State: cluster.MemberStarted, Token: p.Token, Cluster: p.Cluster, Member: p.Member, Run: true, Adopted: true,
			Version: l.Version, URLs: record.CopyURLs(l.URLs), Options: slices.Clone(l.Options), Quarantined: l.Quarantined,
		}
	})
}

// launchOf is how the member is to be run, or why it is not.
func (h *Host) launchOf(ctx context.Context, s record.State, p *record.Predecessor) (l record.Launch, why, hint string) {
	switch {
	case p.Refused != "":
		return l, p.Refused, p.Hint
	case p.Held != nil:
		return l, fmt.Sprintf("an etcd that this daemon did not start runs on it: %v", p.Held), "stop etcd-manager on this host, and its etcd; the member is started again within a second after that"
	case s.GaveUp(p.Member):
		return l, fmt.Sprintf("this disk carried member %s and gave it up", p.Member), "let the host join anew with an empty data directory"
	case s.Floor() > 0:
		return l, fmt.Sprintf("this host promised to run nothing below generation %d", s.Floor()), "let the host join anew with an empty data directory"
	}
	if why, hint = h.markerIsTheirs(ctx); why != "" {
		return l, why, hint
	}
	l = record.Launch{Name: s.Host, Token: p.Token, Nonce: h.o.Mint(), URLs: h.o.URLs, Adopted: true}
	if p.State != nil {
		node, _ := p.State.Node(s.Host)
		l.URLs, l.Quarantined = node.URLs, p.State.Quarantined
	}
	if why, hint = h.fitsURLs(l.URLs); why != "" {
		return l, why, hint
	}
	if l.Version, why, hint = h.releaseOf(p); why != "" {
		return l, why, hint
	}
	l.Options, _ = h.options(l.Version)
	return l, "", ""
}

// markerIsTheirs reads the created marker through this host's own access.
func (h *Host) markerIsTheirs(ctx context.Context) (why, hint string) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	in, err := h.o.Intents.ReadIntent(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("the store's created marker cannot be read: %v", err), "make the backup store readable for this host"
	case in == nil:
		return "the store has no created marker", "give the daemon the --backup-store that etcd-manager had"
	case !in.Adopted():
		return fmt.Sprintf("the store's record is of generation %d of cluster %s, which our daemons keep, and this host has no part in it", in.Generation, in.Cluster),
			"let the host join anew with an empty data directory"
	}
	return "", ""
}

// fitsURLs holds the URLs that the member has against those of the flags: with
// another scheme it would find no certificate, or do without one.
func (h *Host) fitsURLs(u cluster.URLs) (why, hint string) {
	for _, pair := range [][2][]string{{u.Peer, h.o.URLs.Peer}, {u.Client, h.o.URLs.Client}} {
		if len(pair[0]) == 0 || len(pair[1]) == 0 {
			return "its URLs are not known", "give the daemon the flags that etcd-manager had"
		}
		was, _, _ := strings.Cut(pair[0][0], "://")
		is, _, _ := strings.Cut(pair[1][0], "://")
		if was != is {
			return fmt.Sprintf("it was run with %s, and this daemon is to run it with %s", pair[0][0], pair[1][0]), "give the daemon the flags that etcd-manager had (--etcd-insecure, --pki-dir)"
		}
	}
	return "", ""
}

// releaseOf is the release that the member ran. Where the state file does not say,
// it is the spec's, which etcd-manager brings its members to.
func (h *Host) releaseOf(p *record.Predecessor) (v cluster.Version, why, hint string) {
	if p.State != nil {
		var err error
		if v, err = cluster.ParseVersion(p.State.Version); err != nil {
			return v, fmt.Sprintf("its state file names no release that is known here: %v", err), "ask etcd-manager for one of the lines " + cluster.KnownLines + " first"
		}
	} else if spec := h.Spec(); spec != nil {
		v = spec.EtcdVersion
	} else {
		return v, "its state file is torn or empty, and the release that it ran is to be had from the spec, which was not read yet", "etcd-manager-ctl configure-cluster writes one"
	}
	if !slices.Contains(h.o.Releases(), v) {
		return v, fmt.Sprintf("this host has no etcd %s", v), fmt.Sprintf("run etcdadm download %s on this host, or unpack the release into /opt/etcd-v%s; it is taken up within ten seconds", v, v)
	}
	return v, "", ""
}

// lookAgain brings the record of a member that was taken over, and that is in no
// intent yet, in line with what etcd-manager may have made of it since: a person
// can go back to it for a while.
func (h *Host) lookAgain(ctx context.Context) {
	s := h.snapshot()
	if s.Launch == nil || s.Local.Generation != 0 || s.Local.State != cluster.MemberStarted || s.Floor() > 0 || s.Journal != nil {
		return
	}
	p, err := h.o.Disk.Predecessor(s.Host, s.Disk)
	if err != nil || p == nil || p.Refused != "" || p.Held != nil {
		return
	}
	marked, _, err := h.o.Disk.Data(p.Token, s.Disk)
	if err != nil {
		return
	}
	if marked && p.Token == s.Local.Token && p.Member == s.Local.Member {
		h.refreshTaken(ctx, s, p)
		return
	}
	h.o.Log.Warn("etcd-manager has put another member here since this one was taken over: looking at it anew", "was", s.Local.Member, "is", p.Member)
	_ = h.save(ctx, func(now *record.State) { now.Local, now.Launch, now.Before = cluster.LocalMember{}, nil, nil }) // seen again at the next start
}

// refreshTaken takes up release, URLs and quarantine as the state file has them now.
func (h *Host) refreshTaken(ctx context.Context, s record.State, p *record.Predecessor) {
	l, why, _ := h.launchOf(ctx, s, p)
	if why != "" || l.Same(*s.Launch) || p.State == nil {
		return
	}
	if err := h.recordTaken(ctx, p, l); err == nil {
		h.o.Log.Info("etcd-manager has changed the settings of its member since: they are taken up", "version", l.Version)
	}
}

func (h *Host) setTheirs(p *cluster.Predecessor) {
	h.mu.Lock()
	before := h.theirs
	h.theirs = p
	h.mu.Unlock()
	if p != nil && (before == nil || before.Waits != p.Waits) {
		h.o.Log.Warn("a member of a cluster that something else runs is not taken over: "+p.Waits, "problem", "predecessor", "hint", p.Hint)
	}
	if (p == nil) != (before == nil) || p != nil && *p != *before {
		h.changed()
	}
}

// awaitPredecessor fires while something keeps a member from being taken over.
func (h *Host) awaitPredecessor() <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.theirs == nil || h.broken != nil:
		return nil
	case h.theirs.Held:
		return time.After(heldEvery)
	}
	return time.After(waitsEvery)
}

// tryTakeOver looks again.
func (h *Host) tryTakeOver(ctx context.Context) {
	t := h.beginWait(ctx, cluster.Op{Kind: cluster.OpBoot})
	if t == nil {
		return
	}
	defer h.end(t)
	h.awaits("a look at what etcd-manager has left")
	h.takeOver(ctx)
	h.converge(ctx, false)
}
