package conversion

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
)

// Source is the data that are to be carried over: one of both.
type Source struct {
	Release release.Release // that wrote them
	// Snapshot is a file of version 3, its SHA-256 at its end.
	Snapshot string
	// DataDir is that of a stopped member of version 2.
	DataDir string
	// Credential is root's of version 2, if authentication is on there. Data of
	// version 3 are read without one.
	Credential func(ctx context.Context) (user, password string, err error)
}

// Options say what is to be made.
type Options struct {
	Source Source
	// Release is what is to run it.
	Release release.Release
	// Site is a directory of ours for the time of the call, on the disk of the
	// result; its parent is there. It holds both databases, and the copy.
	Site string
	// Accept is the digest of the losses that a person has accepted; empty: none.
	Accept string
	// AcceptAny accepts any list: what is made will be thrown away, or there is no
	// other way and who calls tells of the list.
	AcceptAny bool
	// Progress, when not nil, is told from time to time how much has been written.
	Progress func(keys, bytes int64)

	// File is the snapshot of version 3 that is to be made, and Revision what it
	// reaches at least, so that clients never see one go back (SAFETY.md, rule
	// 16); what a tool raises when it restores comes on top of that.
	File     string
	Revision int64

	// Founder is the data directory of version 2 that is to be made.
	Founder Founder
}

// Founder is the one founding voter of a cluster of version 2. That has no tool
// that restores, so the directory is made with its identity.
type Founder struct {
	DataDir  string // to be made; nothing may be there
	Name     string
	PeerURLs []string
	Token    string
}

// Converted is what was made.
type Converted struct {
	Report keycopy.Report `json:"report"`
	Copy   keycopy.Result `json:"copy"`
	// Snapshot tells of the one that was made; nil with version 2.
	Snapshot *snapshot.Info `json:"snapshot,omitempty"`
}

// LossError says that something would be lost that was not accepted.
type LossError struct{ Report keycopy.Report }

func (e *LossError) Error() string {
	n := 0
	for _, l := range e.Report.Losses {
		if !l.Always {
			n++
		}
	}
	return fmt.Sprintf("%d kinds of things cannot be carried over from etcd %s to %s, and that list (%s) was not accepted",
		n, e.Report.From, e.Report.To, e.Report.Digest())
}

// Hint says what to do.
func (e *LossError) Hint() string {
	return "read the list, and accept it by its digest"
}

// Survey lists what would be lost on the way to a release that need not be here.
// Of the options, the source and the site count.
func Survey(ctx context.Context, o Options, to cluster.Version) (keycopy.Report, error) {
	s, err := openStage(ctx, o)
	if err != nil {
		return keycopy.Report{}, fmt.Errorf("survey data of etcd %s: %w", o.Source.Release.Version, err)
	}
	report, err := s.survey(ctx, to)
	if err = errors.Join(err, s.close()); err != nil {
		return keycopy.Report{}, fmt.Errorf("survey data of etcd %s: %w", o.Source.Release.Version, err)
	}
	return report, nil
}

// Convert makes what the release can begin with. Errors: [*LossError], and those
// of keycopy and snapshot.
func Convert(ctx context.Context, o Options) (Converted, error) {
	c, err := converted(ctx, o)
	if err != nil {
		return c, fmt.Errorf("convert data of etcd %s to %s: %w", o.Source.Release.Version, o.Release.Version, err)
	}
	return c, nil
}

func converted(ctx context.Context, o Options) (c Converted, err error) {
	to, err := cluster.ParseVersion(o.Release.Version)
	if err != nil {
		return c, err
	}
	place := o.File
	if to.Major == 2 {
		place = o.Founder.DataDir
	}
	if _, err := os.Lstat(place); !errors.Is(err, os.ErrNotExist) {
		return c, errors.Join(fmt.Errorf("%w: %s", snapshot.ErrExists, place), err)
	}
	s, err := openStage(ctx, o)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if c.Report, err = s.survey(ctx, to); err != nil {
		return c, err
	}
	if c.Report.Loses() && c.Report.Digest() != o.Accept && !o.AcceptAny {
		return c, &LossError{Report: c.Report}
	}
	if c.Copy, err = s.copy(ctx, to, c.Report.Largest); err != nil {
		return c, err
	}
	if to.Major == 2 {
		return c, s.new.Publish(dirData, o.Founder.DataDir)
	}
	info, err := snapshot.Seal(ctx, s.new.Path(dirData), o.File, o.Revision, c.Copy.Keys)
	if err != nil {
		return c, err
	}
	c.Snapshot = &info
	return c, nil
}

const dirData = "data"

// stage is the place where both etcds run.
type stage struct {
	o        Options
	old, new *snapshot.Site
	source   *running
	letGo    func() // no longer renews the source's leases; nil: it has none
	authOn   bool
}

func openStage(ctx context.Context, o Options) (s *stage, err error) {
	if o.Site, err = filepath.Abs(o.Site); err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.Site, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	s = &stage{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.old, err = snapshot.OpenSite(ctx, filepath.Join(o.Site, "old")); err != nil {
		return s, err
	}
	if s.new, err = snapshot.OpenSite(ctx, filepath.Join(o.Site, "new")); err != nil {
		return s, err
	}
	return s, s.startSource(ctx)
}

func (s *stage) close() (err error) {
	if s.letGo != nil {
		s.letGo()
	}
	if s.source != nil {
		s.source.etcd.Kill()
	}
	for _, site := range []*snapshot.Site{s.old, s.new} {
		if site != nil {
			err = errors.Join(err, site.Close())
		}
	}
	if e := os.Remove(s.o.Site); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// startSource runs the old etcd on a copy of the data.
func (s *stage) startSource(ctx context.Context) error {
	from, data := s.o.Source, s.old.Path(dirData)
	if from.DataDir != "" {
		return s.startSourceV2(ctx, data)
	}
	info, err := snapshot.Verify(ctx, from.Snapshot)
	if err != nil {
		return err
	}
	s.authOn = info.AuthEnabled
	if _, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Snapshot: from.Snapshot, Verified: info.SHA256, DataDir: data, Release: from.Release,
		Name: "throw-away", PeerURLs: []string{nobody}, Token: "throw-away",
	}); err != nil {
		return err
	}
	if s.authOn {
		if err := snapshot.AuthOff(ctx, data); err != nil {
			return err
		}
	}
	if s.source, err = startV3(ctx, s.old, from.Release, data, 0); err != nil {
		return err
	}
	s.letGo, err = keycopy.Keep(ctx, s.source.endpoint)
	return err
}

// startSourceV2 has the old etcd write its whole store down at once, since it lists
// hidden keys to nobody.
func (s *stage) startSourceV2(ctx context.Context, data string) error {
	from := s.o.Source
	last, err := snapshot.ReviveV2(ctx, from.DataDir, data)
	if err != nil {
		return err
	}
	if s.source, err = startV2(ctx, s.old, from.Release, data, Founder{}, "--force-new-cluster", "--snapshot-count=1"); err != nil {
		return err
	}
	hidden := []string{}
	within := snapshot.ServesWithin(data)
	ctx, cancel := context.WithTimeoutCause(ctx, within, snapshot.NotServed(within))
	defer cancel()
	err = s.source.etcd.Until(ctx, fmt.Sprintf("has written down entry %d", last.Index), func(context.Context) (bool, error) {
		paths, index, err := snapshot.HiddenV2(data)
		hidden = append(hidden[:0], paths...)
		return err == nil && index > last.Index, err
	})
	s.source.endpoint.Credential, s.source.endpoint.Hidden = from.Credential, hidden
	return err
}

func (s *stage) survey(ctx context.Context, to cluster.Version) (keycopy.Report, error) {
	report, err := again(func() (keycopy.Report, error) { return keycopy.Survey(ctx, s.source.endpoint, to) })
	if err == nil && s.authOn {
		report.Add(keycopy.AuthOn, "on")
	}
	return report, err
}

// tries is how often a source that changed is read again: etcd 2 writes about
// itself after its start, and keys may expire.
const tries = 5

func again[T any](do func() (T, error)) (got T, err error) {
	for range tries {
		if got, err = do(); !errors.Is(err, keycopy.ErrSourceChanged) {
			break
		}
	}
	return got, err
}

// copy fills a new etcd, and stops it.
func (s *stage) copy(ctx context.Context, to cluster.Version, largest int64) (keycopy.Result, error) {
	return again(func() (keycopy.Result, error) {
		if err := s.new.Empty(); err != nil {
			return keycopy.Result{}, err
		}
		target, err := s.startTarget(ctx, to, largest)
		if err != nil {
			return keycopy.Result{}, err
		}
		defer target.etcd.Kill()
		result, err := keycopy.Copy(ctx, s.source.endpoint, target.endpoint, keycopy.Options{LeaveOut: true, Renew: true, Progress: s.o.Progress})
		if err != nil {
			return result, err
		}
		return result, target.etcd.Stop(ctx)
	})
}

func (s *stage) startTarget(ctx context.Context, to cluster.Version, largest int64) (*running, error) {
	data := s.new.Path(dirData)
	if to.Major == 2 {
		return startV2(ctx, s.new, s.o.Release, data, s.o.Founder)
	}
	return startV3(ctx, s.new, s.o.Release, data, largest)
}
