package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/conversion"
	"etcdadm.io/internal/cores"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/snapshot"
)

// keyByKey: no tool of the release that is to run reads what the other wrote. Etcd
// 2 has none that gives data another identity, so its data go this way also to
// the same release.
func keyByKey(o bulk.StageOrder) bool {
	from, to := o.Source.Wrote, o.Version
	switch {
	case from.IsZero():
		return false
	case !from.Has(cluster.V3API) || !to.Has(cluster.V3API):
		return true
	}
	return o.Source.Kind == cluster.SourceHalted && !to.ReadsSnapshot(from)
}

// Files of a stage or of a rehearsal.
const (
	fileBefore = "before.db" // a snapshot of the release before
	dirLive    = "live"      // a copy of a running member's data
	dirSite    = "site"      // where both etcds run
)

// conversionOf is what a data directory or a snapshot is carried over with. A
// snapshot that is not there yet is made of the data directory, in dir.
func (s *Sources) conversionOf(ctx context.Context, wrote, to cluster.Version, data, dir string) (o conversion.Options, err error) {
	o.Site = filepath.Join(dir, dirSite)
	if o.Release, err = s.o.Finder.Find(ctx, to.String()); err != nil {
		return o, fmt.Errorf("find etcd %s: %w", to, err)
	}
	if o.Source.Release, err = s.ofLine(ctx, wrote); err != nil {
		if wrote.Has(cluster.V3API) || !reads(to, wrote) {
			return o, fmt.Errorf("find the etcd that wrote the data: %w", err)
		}
		o.Source.Release = o.Release // which reads what the line before it wrote
	}
	if !wrote.Has(cluster.V3API) {
		o.Source.DataDir = data
		return o, nil
	}
	o.Source.Snapshot = filepath.Join(dir, fileBefore)
	if data == "" {
		return o, nil
	}
	_, err = snapshot.Extract(ctx, snapshot.ExtractOptions{DataDir: data, File: o.Source.Snapshot, Release: o.Source.Release})
	return o, err
}

// acceptsAny: a halt can be taken back, and a backup is made ready before anything is
// stopped, so these wait for a person's approval. Every other source is the way back of a
// halt, or what a person named after the cluster was gone: refused, all members would
// stay down. So is a backup within version 2, with which there is no other way, and one
// that is made ready anew once its generation is written down.
func acceptsAny(s cluster.Source, to cluster.Version) bool {
	switch s.Kind {
	case cluster.SourceHalted:
		return false
	case cluster.SourceBackup:
		return s.Accept == cluster.AcceptAny || s.Wrote.Has(cluster.V3API) == to.Has(cluster.V3API)
	}
	return true
}

// convert carries the data of the own stopped member over, key by key: to a
// snapshot, which is restored as any other, or to a founder of version 2, which is
// what was asked for itself.
func (s *Sources) convert(ctx context.Context, o bulk.StageOrder, data, file string, progress func(int64)) error {
	dir := filepath.Dir(file)
	if !o.Source.Wrote.Has(cluster.V3API) {
		if err := snapshot.RoomV2(data, dir); err != nil {
			return err
		}
	}
	c, err := s.conversionOf(ctx, o.Source.Wrote, o.Version, data, dir)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier try
		return fmt.Errorf("make room for what is staged: %w", err)
	}
	c.Accept, c.AcceptAny, c.File = o.Source.Accept, acceptsAny(o.Source, o.Version), file
	c.Founder = conversion.Founder{DataDir: filepath.Join(dir, dirBuilt), Name: string(o.Name), PeerURLs: o.PeerURLs, Token: o.Token}
	c.Progress = func(_, bytes int64) { progress(bytes) }
	done, err := conversion.Convert(ctx, c)
	if err != nil {
		return unaccepted(o.Source, err)
	}
	if lost := surveyOf(&done.Report); c.AcceptAny && lost.Loses() {
		s.o.Log.Warn("some keys could not be carried over, and nobody was asked: this is the only data left, or a person chose it",
			"source", o.Source.Kind, "from", lost.From, "to", lost.To, "lost", lost.Words(), "digest", lost.Digest)
	}
	if c.Source.Snapshot == "" {
		return nil
	}
	if err := os.Remove(c.Source.Snapshot); err != nil {
		return fmt.Errorf("make room after carrying keys over: %w", err)
	}
	return nil
}

// stageV2 makes the data directory of a founder of version 2.
func (s *Sources) stageV2(ctx context.Context, o bulk.StageOrder, file string, progress func(cluster.StageState, int64)) (bulk.Built, error) {
	data, err := s.dataV2(ctx, o, filepath.Dir(file), func(n int64) { progress(cluster.StageFetching, n) })
	if err != nil {
		return bulk.Built{}, hopeless(err)
	}
	built := filepath.Join(filepath.Dir(file), dirBuilt)
	if err := os.RemoveAll(built); err != nil { // what an earlier try under this token left
		return bulk.Built{}, fmt.Errorf("make room for what is staged: %w", err)
	}
	if err := s.convert(ctx, o, data, file, func(n int64) { progress(cluster.StageBuilding, n) }); err != nil {
		return bulk.Built{}, err
	}
	if err := s.o.Disk.MarkData(built, o.Token, o.Disk); err != nil {
		return bulk.Built{}, err
	}
	if err := os.RemoveAll(filepath.Join(filepath.Dir(file), dirBackup)); err != nil {
		return bulk.Built{}, fmt.Errorf("make room after staging: %w", err)
	}
	b := bulk.Built{Source: o.Source}
	b.Source.Tool = o.Version.String()
	b.Member, b.Cluster, err = snapshot.IdentityOf(built)
	return b, err
}

// dataV2 is the directory that is carried over to an etcd of version 2: of a member
// on this host, or of a backup.
func (s *Sources) dataV2(ctx context.Context, o bulk.StageOrder, dir string, progress func(int64)) (string, error) {
	switch {
	case o.Source.Kind != cluster.SourceBackup:
		return s.dataOf(o)
	case o.Source.Wrote.IsZero() || o.Source.Wrote.Has(cluster.V3API):
		return "", fmt.Errorf("%w: etcd %s does not begin with a backup of version 3", bulk.ErrBadSource, o.Version)
	}
	return s.fetchV2(ctx, o, dir, progress)
}

// carriedTimes is how many times the room of an unpacked backup of etcd 2 it takes until
// it is carried over, as the planner counts, too: its own, and that of
// [snapshot.RoomV2].
const carriedTimes = 5

// fetchV2 unpacks a backup of etcd 2 beside what is staged.
func (s *Sources) fetchV2(ctx context.Context, o bulk.StageOrder, dir string, progress func(int64)) (string, error) {
	name, err := backup.ParseName(o.Source.Backup)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bulk.ErrBadSource, err)
	}
	ids, err := s.identities()
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, dirBackup)
	if err := os.RemoveAll(data); err != nil { // what an earlier try under this token left
		return "", fmt.Errorf("make room for what is staged: %w", err)
	}
	if _, err := s.o.Catalogue.FetchDirectory(ctx, name, data, ids, carriedTimes, progress); err != nil {
		return "", fmt.Errorf("fetch backup %s: %w", name, withKeyHint(err))
	}
	return data, nil
}

// unaccepted says what a person would have to accept of a backup. No other host has a
// shorter list.
func unaccepted(s cluster.Source, err error) error {
	var loss *conversion.LossError
	if s.Kind != cluster.SourceBackup || !errors.As(err, &loss) {
		return err
	}
	lost := surveyOf(&loss.Report)
	return fmt.Errorf("%w as it is: of %d keys %d can be carried over from etcd %s to %s, key by key; lost would be: %s. Nothing was stopped; run the same command with --accept-loss=%s to accept that list",
		bulk.ErrBadSource, lost.Keys, lost.Carried, lost.From, lost.To, lost.Words(), lost.Digest)
}

// dataOf is the directory of this host that a source is read from.
func (s *Sources) dataOf(o bulk.StageOrder) (string, error) {
	if o.Source.Kind != cluster.SourceSetAside {
		return s.o.Disk.DataDir(o.From), nil
	}
	dir, err := s.o.Disk.AsideDir(o.Source.Dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bulk.ErrBadSource, err)
	}
	return dir, nil
}

// Survey implements bulk.Sources.
func (s *Sources) Survey(ctx context.Context, o bulk.SurveyOrder) (survey cluster.Survey, err error) {
	defer cores.TakeAll()()
	ctx, end := s.working(ctx, "rehearsing a change of version")
	defer end()
	dir, err := s.drillRoom()
	if err != nil {
		return survey, err
	}
	if err := s.beginTrial(o.Name); err != nil {
		return survey, err
	}
	defer func() { err = errors.Join(err, s.endTrial()) }()
	data := ""
	if o.Backup == "" {
		data = filepath.Join(dir, dirLive)
		err = s.copyLive(ctx, o, data)
	} else {
		err = s.fetchBackup(ctx, o.Backup, filepath.Join(dir, fileBefore))
	}
	if err != nil {
		return survey, err
	}
	c, err := s.conversionOf(ctx, o.Wrote, o.To, data, dir)
	if err != nil {
		return survey, err
	}
	c.AcceptAny, c.File = true, filepath.Join(dir, fileSnapshot)
	c.Founder = conversion.Founder{DataDir: filepath.Join(dir, dirBuilt), Name: "rehearsal", PeerURLs: []string{"http://127.0.0.1:1"}, Token: "rehearsal"}
	done, err := conversion.Convert(ctx, c)
	if err != nil {
		return survey, err
	}
	return surveyOf(&done.Report), nil
}

func (s *Sources) copyLive(ctx context.Context, o bulk.SurveyOrder, to string) error {
	if o.Wrote.Has(cluster.V3API) {
		return errors.New("the data of a running member of version 3 are read from a backup")
	}
	from := s.o.Disk.DataDir(o.From)
	if err := snapshot.RoomV2(from, filepath.Dir(to)); err != nil {
		return err
	}
	return snapshot.CopyV2(ctx, from, to)
}

func (s *Sources) fetchBackup(ctx context.Context, name, file string) error {
	n, err := backup.ParseName(name)
	if err != nil {
		return err
	}
	ids, err := s.identities()
	if err != nil {
		return err
	}
	_, err = s.o.Catalogue.Fetch(ctx, n, file, ids, backupstore.ThrownAway, nil)
	return withKeyHint(err)
}

// mostExamples is how many names of a kind an observation carries.
const mostExamples = 5

func surveyOf(r *keycopy.Report) cluster.Survey {
	s := cluster.Survey{From: r.From, To: r.To, Keys: r.Keys, Carried: r.Carried}
	if r.Loses() {
		s.Digest = r.Digest()
	}
	for _, l := range r.Losses {
		s.Losses = append(s.Losses, cluster.Loss{
			Kind: string(l.Kind), Count: l.Count, Text: l.Text, Always: l.Always, Examples: l.Examples[:min(len(l.Examples), mostExamples)],
		})
	}
	return s
}
