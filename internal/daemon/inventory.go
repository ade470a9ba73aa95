package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/say"
	"golang.org/x/sync/singleflight"
)

// inventory is the releases that were found, looked for again now and then.
type inventory struct {
	finder  *release.Finder
	asked   singleflight.Group // a person's look
	log     *slog.Logger
	said    *say.Once
	changed func() // the list is another one; nil: nobody has to be told

	mu      sync.Mutex // guards what follows
	found   []cluster.Version
	at      time.Time
	looking bool
}

// relook is how long a list of releases is believed. A look costs a few calls a place:
// what a program said of itself is remembered. A person waits for it who has just put a
// release there.
const relook = 5 * time.Second

func (d *daemon) findReleases(ctx context.Context) error {
	roots := []string{release.SystemRoot}
	if d.cfg.Root != "" {
		roots = []string{d.cfg.Root, release.SystemRoot}
	}
	d.releases = &inventory{finder: &release.Finder{Dirs: d.cfg.ReleaseDirs, Roots: roots, Builtin: d.program.Builtin}, log: d.log, said: say.NewOnce(d.log)}
	d.releases.look(ctx)
	return nil
}

func (i *inventory) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releasesTimeout)
	defer cancel()
	list, passed, err := i.finder.List(ctx)
	i.mu.Lock()
	before := i.found
	i.at = time.Now() // also after a failure: the next observation need not fail as well
	i.mu.Unlock()
	if err != nil {
		return // the daemon ends; what was found before stays
	}
	var found []cluster.Version
	for _, r := range list {
		if v, err := cluster.ParseVersion(r.Asked); err == nil {
			found = append(found, v)
		}
	}
	// What does not answer may be what it was before; a start says what is wrong.
	for _, v := range before {
		mayBe := func(p release.Passed) bool {
			is, err := cluster.ParseVersion(p.Version)
			return p.Silent() && (p.Version == "" || err == nil && is == v)
		}
		if !slices.Contains(found, v) && slices.ContainsFunc(passed, mayBe) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, cluster.Version.Compare)
	i.mu.Lock()
	i.found = found
	i.mu.Unlock()
	if i.changed != nil && !slices.Equal(before, found) {
		i.changed()
	}
	i.saySilent(passed)
}

// saySilent logs which programs do not answer, and that all do again, once each.
func (i *inventory) saySilent(passed []release.Passed) {
	var paths []string
	var reasons []error
	for _, p := range passed {
		if p.Silent() {
			paths = append(paths, p.Path)
			reasons = append(reasons, fmt.Errorf("%s: %w", p.Path, p.Reason))
		}
	}
	switch news := i.said.News("silent", strings.Join(paths, "\n")); { // not by their times, which differ
	case !news:
	case len(paths) > 0:
		i.log.Warn("there are etcd programs, or directories of them, that do not answer; they are passed over", "err", errors.Join(reasons...))
	default:
		i.log.Info("all etcd programs and directories of them answer")
	}
}

// releasesHere are the releases of etcd that this daemon finds now. One look goes on at a
// time, whoever asks; it may take longer than a question, and is asked for again then.
func (d *daemon) releasesHere(ctx context.Context) console.Releases {
	look := d.releases.asked.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasesAsked)
		defer cancel()
		return ReleasesBy(ctx, d.releases.finder)
	})
	up := time.NewTimer(releasesAnswer)
	defer up.Stop()
	var out console.Releases
	select {
	case r := <-look:
		if out, _ = r.Val.(console.Releases); r.Err != nil {
			out.Unknown = r.Err.Error()
		}
	case <-up.C:
		out.Unknown, out.Looking = "its look for them has not ended", true
	case <-ctx.Done():
		out.Unknown, out.Looking = "its look for them has not ended", true
	}
	out.Host = d.id
	return out
}

// ReleasesBy are the releases of etcd that a finder finds.
func ReleasesBy(ctx context.Context, finder *release.Finder) (out console.Releases, err error) {
	found, passed, err := finder.List(ctx)
	if err != nil {
		return out, err
	}
	for _, r := range found {
		out.Found = append(out.Found, console.Release{Version: r.Version, Asked: r.Asked, Dir: r.Dir, Builtin: r.Builtin})
	}
	for _, p := range passed {
		out.Passed = append(out.Passed, fmt.Sprintf("%s: %v", p.Path, p.Reason))
	}
	return out, nil
}

// versions never waits: an observation asks for them. A look goes on beside it, one at a
// time, and what was found before is believed until it has ended.
func (i *inventory) versions() []cluster.Version {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.at) > relook && !i.looking {
		i.looking = true
		go func() {
			i.look(context.Background())
			i.mu.Lock()
			i.looking = false
			i.mu.Unlock()
		}()
	}
	return i.found
}
