package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/work"
)

// How often what keeps a member of etcd-manager from being taken over is looked at
// again: no event tells that somebody else's process ended, and others count a
// member as lost after a minute.
const (
	heldEvery  = 500 * time.Millisecond // another program's etcd runs on it: once that ends, the member is out of service
	waitsEvery = time.Second            // something that a person has to change first, or that the store says in a moment
)

// Try begins to run the member that etcd-manager left on this host, as it
// left it: same ID, URLs, release, certificates (docs/adr/016-adoption.md). It
// asks no leader (SAFETY.md, rule 2), only the store, whose marker has to be
// etcd-manager's still: it is what says that no later generation was founded. The
// caller runs a task.
func (t *TakeOver) Try(ctx context.Context) {
	s := t.Keeper.Now()
	if s.Launch != nil || s.Local.State != cluster.MemberNone || s.Journal != nil {
		t.set(nil)
		return
	}
	p, err := t.Disk.Predecessor(s.Host, s.Disk)
	switch {
	case err != nil:
		t.set(&cluster.Predecessor{Waits: err.Error(), Hint: "make the data directory readable"})
		return
	case p == nil:
		t.set(t.enter(ctx, s))
		return
	}
	report := &cluster.Predecessor{Token: p.Token, Cluster: p.Cluster, Member: p.Member, Held: p.Held != nil}
	launch, why, hint := t.launchOf(ctx, s, p)
	if why == "" {
		err := t.Disk.TakeOver(p.Token, s.Disk)
		if err == nil {
			err = t.recordTaken(ctx, p, launch)
		}
		if err == nil {
			t.Log.Info("took over the member that etcd-manager ran here", "member", p.Member, "of cluster", p.Cluster, "version", launch.Version)
			t.set(nil)
			t.Inventory.Refresh()
			return
		}
		why, hint = err.Error(), "make the data directory writable"
	}
	report.Waits, report.Hint = why, hint
	t.set(report)
}

// recordTaken makes the member this host's own. The mark of this disk lies beside
// its log by then; a crash in between is finished by the next look.
func (t *TakeOver) recordTaken(ctx context.Context, p *record.Predecessor, l record.Launch) error {
	return t.Keeper.Change(ctx, func(s *record.State) {
		s.Launch, s.Before = &l, nil
		s.Local = cluster.LocalMember{
			State: cluster.MemberStarted, Token: p.Token, Cluster: p.Cluster, Member: p.Member, Run: true, Adopted: true,
			Version: l.Version, URLs: record.CopyURLs(l.URLs), Options: slices.Clone(l.Options), Quarantined: l.Quarantined,
		}
	})
}

// launchOf is how the member is to be run, or why it is not.
func (t *TakeOver) launchOf(ctx context.Context, s record.State, p *record.Predecessor) (l record.Launch, why, hint string) {
	switch {
	case p.Refused != "":
		return l, p.Refused, p.Hint
	case p.Held != nil:
		return l, fmt.Sprintf("an etcd that this daemon did not start runs on it: %v", p.Held), "stop etcd-manager on this host, and its etcd; the member is started again within a second after that"
	case s.GaveUp(p.Member):
		return l, fmt.Sprintf("this disk gave up member %s and never starts it again", p.Member), "let the host rejoin with an empty data directory"
	case s.Floor() > 0:
		return l, fmt.Sprintf("this host promised to run nothing below generation %d", s.Floor()), "let the host rejoin with an empty data directory"
	}
	if why, hint = t.markerIsTheirs(ctx); why != "" {
		return l, why, hint
	}
	l = record.Launch{Name: s.Host, Token: p.Token, Nonce: t.Mint(), URLs: t.URLs, Adopted: true}
	if p.State != nil {
		node, _ := p.State.Node(s.Host)
		l.URLs, l.Quarantined = node.URLs, p.State.Quarantined
	}
	if why, hint = t.fitsURLs(l.URLs); why != "" {
		return l, why, hint
	}
	if l.Version, why, hint = t.releaseOf(p); why != "" {
		return l, why, hint
	}
	l.Options, _ = t.Settings.Options(l.Version)
	return l, "", ""
}

// markerIsTheirs reads the created marker through this host's own access.
func (t *TakeOver) markerIsTheirs(ctx context.Context) (why, hint string) {
	ctx, cancel := context.WithTimeout(ctx, work.ReadDeadline)
	defer cancel()
	in, err := t.Marker(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("the store's created marker cannot be read: %v", err), "make the backup store readable for this host"
	case in == nil:
		return "the store has no created marker", "give the daemon the --backup-store that etcd-manager had"
	case !in.Adopted():
		return fmt.Sprintf("the store's record is of generation %d of cluster %s, which our daemons keep, and this host has no part in it", in.Generation, in.Cluster),
			"let the host rejoin with an empty data directory"
	}
	return "", ""
}

// fitsURLs holds the URLs that the member has against those of the flags: with
// another scheme it would find no certificate, or do without one.
func (t *TakeOver) fitsURLs(u cluster.URLs) (why, hint string) {
	if why, hint = sameScheme(u.Peer, t.URLs.Peer); why != "" {
		return why, hint
	}
	return t.fitsClients(u)
}

func (t *TakeOver) fitsClients(u cluster.URLs) (why, hint string) {
	return sameScheme(u.Client, t.URLs.Client)
}

func sameScheme(had, has []string) (why, hint string) {
	if len(had) == 0 || len(has) == 0 {
		return "its URLs are not known", "give the daemon the flags that etcd-manager had"
	}
	was, _, _ := strings.Cut(had[0], "://")
	is, _, _ := strings.Cut(has[0], "://")
	if was != is {
		return fmt.Sprintf("it was run with %s, and this daemon is to run it with %s", had[0], has[0]), "give the daemon the flags that etcd-manager had (--etcd-insecure, --pki-dir)"
	}
	return "", ""
}

// releaseOf is the release that the member ran. Where the state file does not say,
// it is the spec's, which etcd-manager brings its members to.
func (t *TakeOver) releaseOf(p *record.Predecessor) (v cluster.Version, why, hint string) {
	if p.State != nil {
		var err error
		if v, err = cluster.ParseVersion(p.State.Version); err != nil {
			return v, fmt.Sprintf("its state file names no release that is known here: %v", err), "ask etcd-manager for one of the lines " + cluster.KnownLines + " first"
		}
	} else if spec := t.Memory.Spec(); spec != nil {
		v = spec.EtcdVersion
	} else {
		return v, "its state file is torn or empty, and the release that it ran is to be had from the spec, which was not read yet", "etcd-manager-ctl configure-cluster writes one"
	}
	if !slices.Contains(t.Releases(), v) {
		return v, fmt.Sprintf("this host has no etcd %s", v), fmt.Sprintf("run etcdadm download %s on this host, or unpack the release into /opt/etcd-v%s; it is taken up within ten seconds", v, v)
	}
	return v, "", ""
}

// LookAgain brings the record of a member that was taken over, and that is in no
// intent yet, in line with what etcd-manager may have made of it since: a person
// can go back to it for a while.
func (t *TakeOver) LookAgain(ctx context.Context) {
	s := t.Keeper.Now()
	if s.Launch == nil || s.Local.Generation != 0 || s.Local.State != cluster.MemberStarted || s.Floor() > 0 || s.Journal != nil {
		return
	}
	p, err := t.Disk.Predecessor(s.Host, s.Disk)
	if err != nil || p == nil || p.Refused != "" || p.Held != nil {
		return
	}
	marked, _, err := t.Disk.Data(p.Token, s.Disk)
	if err != nil {
		return
	}
	if marked && p.Token == s.Local.Token && p.Member == s.Local.Member {
		t.refreshTaken(ctx, s, p)
		return
	}
	t.Log.Warn("etcd-manager has put another member here since this one was taken over: looking at it anew", "was", s.Local.Member, "is", p.Member)
	_ = t.Keeper.Change(ctx, func(now *record.State) { now.Local, now.Launch, now.Before = cluster.LocalMember{}, nil, nil }) // seen again at the next start
}

// refreshTaken takes up release, URLs and quarantine as the state file has them now.
func (t *TakeOver) refreshTaken(ctx context.Context, s record.State, p *record.Predecessor) {
	l, why, _ := t.launchOf(ctx, s, p)
	if why != "" || l.Same(*s.Launch) || p.State == nil {
		return
	}
	if err := t.recordTaken(ctx, p, l); err == nil {
		t.Log.Info("etcd-manager has changed the settings of its member since: they are taken up", "version", l.Version)
	}
}

func (t *TakeOver) set(p *cluster.Predecessor) {
	t.mu.Lock()
	before := t.waits
	t.waits = p
	t.mu.Unlock()
	if p != nil && (before == nil || before.Waits != p.Waits) {
		t.Log.Warn("a member of a cluster that something else runs is not taken over: "+p.Waits, "problem", "predecessor", "hint", p.Hint)
	}
	if (p == nil) != (before == nil) || p != nil && *p != *before {
		t.Changed()
	}
}

// Again fires while something keeps a member from being taken over.
func (t *TakeOver) Again() <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.waits == nil || t.Keeper.Broken() != nil:
		return nil
	case t.waits.Held:
		return time.After(heldEvery)
	}
	return time.After(waitsEvery)
}
