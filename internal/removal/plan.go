package removal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
)

// Kinds of what is taken away, beside those that setup makes.
const (
	// KindNote is a small file that init, join or reset keeps for itself.
	KindNote setup.Kind = "note"
	// KindHosts is the cluster's block in the hosts file.
	KindHosts setup.Kind = "hosts-file"
)

// Item is one thing on this machine that is taken away.
type Item struct {
	Kind setup.Kind `json:"kind"`
	Path string     `json:"path"`
	// To is where it is set aside; empty: it is removed.
	To string `json:"to,omitempty"`
	// Inside: what is in the directory is set aside, and the directory stays, since it is a mount or a link.
	Inside bool `json:"inside,omitempty"`
}

// Stays is what is left where it is, and why.
type Stays struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// HindranceKind says why the cluster does not let the member go.
type HindranceKind string

// The kinds of hindrances.
const (
	Unreachable HindranceKind = "unreachable" // no daemon answers, or none leads
	NoQuorum    HindranceKind = "no-quorum"   // there is none, or there would be none
	LastMember  HindranceKind = "last-member" // the cluster would end
	Refused     HindranceKind = "refused"     // the leading daemon refuses
	Unknown     HindranceKind = "unknown"     // which cluster it is cannot be read
	Asked       HindranceKind = "asked"       // a person wants it to stay listed
	LastHolder  HindranceKind = "last-holder" // the authorities' keys would be lost
)

// Hindrance is why the member is not removed from the cluster first. Only force goes on.
type Hindrance struct {
	Kind   HindranceKind `json:"kind"`
	Why    string        `json:"why"`
	Advice string        `json:"advice,omitempty"`
}

// Member is the one on this machine, as the leading daemon sees it.
type Member struct {
	ID      cluster.MemberID `json:"id"`
	Learner bool             `json:"learner,omitempty"`
	Leads   bool             `json:"leads,omitempty"` // raft
	Voters  int              `json:"voters"`          // of the cluster, now
	Up      int              `json:"up"`              // of these
}

// Left is what stays behind in the cluster, and the command that ends it on another host.
type Left struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

// Plan is what a reset would do. It changes nothing, and holds no secret.
type Plan struct {
	Cluster string         `json:"cluster,omitempty"`
	Host    cluster.HostID `json:"host,omitempty"`
	// Service is what runs the agent, such as etcdadm.service.
	Service string `json:"service,omitempty"`
	// Nothing: there is nothing on this machine that init or join made.
	Nothing bool `json:"nothing,omitempty"`
	// Again: a reset was interrupted, and goes on.
	Again bool `json:"again,omitempty"`
	// Member is what the cluster lists for this host; nil: none, or it is not known.
	Member *Member `json:"member,omitempty"`
	// Hindrance is why the member is not removed first; nil: nothing is in the way.
	Hindrance *Hindrance `json:"hindrance,omitempty"`
	Purge     bool       `json:"purge,omitempty"`
	Items     []Item     `json:"items"`
	Stays     []Stays    `json:"stays,omitempty"`
	// Left is what stays behind in the cluster.
	Left []Left `json:"left,omitempty"`

	job         *job
	wait        bool                 // the leader has to be asked
	observation *cluster.Observation // the leader's; nil: it was not asked, or not reached
}

// Leaves tells whether the member is removed from the cluster.
func (p Plan) Leaves() bool { return p.wait && p.Hindrance == nil && p.Member != nil }

// Refused is an error where only force goes on. Nothing was changed.
func (p Plan) Refused(o Options) error {
	if p.Hindrance == nil || o.Force || p.Hindrance.Kind == Asked {
		return nil
	}
	err := ErrUnsafe
	if p.Hindrance.Kind == Unreachable {
		err = ErrUnreachable
	}
	return &Error{Problem: p.Hindrance.Why, Err: err, Advice: p.Hindrance.Advice}
}

// Look finds out what a reset would do. The cluster is asked, for [lookTimeout] at most.
//
// Errors: *Error; what the disk says.
func (h *Host) Look(ctx context.Context, o Options) (Plan, error) {
	if err := h.mayWrite(); err != nil {
		return Plan{}, err
	}
	j, err := h.readJob()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Again: j != nil}
	_, words := setup.RunnerOf(h.Paths)
	if j == nil {
		if j, p.Stays, err = h.survey(); err != nil {
			return Plan{}, err
		}
	}
	j.Purge = j.Purge || o.Purge
	p.job, p.Cluster, p.Host, p.Purge, p.Service = j, j.Cluster, j.Host, j.Purge, words.Name
	for _, one := range j.Items {
		if one.Kind == setup.KindDirectory {
			continue
		}
		if j.Purge && one.Kind != KindHosts {
			one.To = ""
		}
		p.Items = append(p.Items, one)
	}
	if p.Nothing = len(p.Items) == 0 && !p.Again; p.Nothing || j.Gone {
		p.Left = j.Left
		return p, nil
	}
	h.lookAtCluster(ctx, &p, o.KeepMember)
	if o.KeepMember && j.Host != "" && p.Hindrance == nil {
		p.Hindrance = &Hindrance{Kind: Asked, Why: "the member stays in the cluster's list, as it was asked"}
		p.Left = j.behind(p.Member)
	}
	if err := ctx.Err(); err != nil {
		return Plan{}, fmt.Errorf("interrupted, and nothing was changed: %w", err)
	}
	return p, nil
}

// survey is what lies on this machine, as a job that nothing is done of.
func (h *Host) survey() (*job, []Stays, error) {
	j := &job{Format: jobFormat, Stamp: setup.Stamp(h.now())}
	s, err := setup.ReadSettings(h.Paths)
	if errors.Is(err, setup.ErrNotSetUp) {
		s, err = nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, err
	}
	if err != nil { // they are there and say nothing: only the usual places are known
		j.Unreadable = err.Error()
	}
	j.Cluster, j.Host = s.Cluster(), s.HostID()
	manifest, err := setup.ReadManifest(h.Paths)
	listed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &Error{Problem: "find out what was installed", Err: err, Advice: "use the newer release of etcdadm, or move " + h.Paths.Manifest() + " away: then the usual places count"}
	}
	var stays []Stays
	for _, dir := range h.dataDirs(s, manifest) {
		why := notOurData(dir)
		if why == empty && slices.Contains(manifest.Made, setup.Made{Kind: setup.KindData, Path: dir}) {
			j.Items = append(j.Items, Item{Kind: setup.KindDirectory, Path: dir})
			continue
		}
		if why != "" {
			stays = append(stays, Stays{dir, why})
			continue
		}
		j.Items = append(j.Items, h.dataItem(dir, j.Stamp))
		stays = append(stays, h.ofTakeover(dir)...)
		j.DataDir = orElseString(j.DataDir, dir)
	}
	files, left, err := h.files(s, manifest, listed, j)
	if err != nil {
		return nil, nil, err
	}
	j.Items, stays = append(j.Items, files...), append(stays, left...)
	if dir := h.Paths.Unit() + ".d"; dropIns(dir, h.Paths.Priority()) {
		stays = append(stays, Stays{dir, "drop-ins of yours"})
	}
	if dir := (certs.Host{Root: h.Paths.Root}).RecordDir(); there(dir) {
		// Without their record no renewal hands them to the next cluster of this machine.
		records, err := os.ReadDir(dir)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range records {
			j.Items = append(j.Items, Item{Kind: setup.KindSettings, Path: filepath.Join(dir, r.Name()), To: filepath.Join(h.Paths.Aside(j.Stamp), filepath.Base(dir), r.Name())})
		}
		j.Items = append(j.Items, Item{Kind: setup.KindDirectory, Path: dir})
		stays = append(stays, Stays{"certificates of etcdadm certs issue", "they are good for the cluster until they end, and are not renewed any more"})
	}
	if _, ok := kept.DataDir(s.Store()); s.Store() != "" && !ok {
		stays = append(stays, Stays{"the backup store", "it is the cluster's"})
	}
	for _, one := range manifest.Made {
		if one.Kind == setup.KindDirectory {
			j.Items = append(j.Items, Item{Kind: one.Kind, Path: one.Path})
		}
	}
	return j, stays, nil
}

// dropIns tells whether there are drop-ins beside the one that init or join may have written.
func dropIns(dir, ours string) bool {
	entries, err := os.ReadDir(dir)
	return err != nil && there(dir) || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Join(dir, e.Name()) != ours })
}

func orElseString(s, usual string) string {
	if s == "" {
		return usual
	}
	return s
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// dataDirs are the directories that may be the agent's, the one that its settings name first.
func (h *Host) dataDirs(s setup.Settings, manifest setup.Manifest) (dirs []string) {
	add := func(dir string) {
		if dir != "" && filepath.IsAbs(dir) && there(dir) && !slices.Contains(dirs, filepath.Clean(dir)) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	add(s.Flag("data-dir"))
	for _, one := range manifest.Made {
		if one.Kind == setup.KindData {
			add(one.Path)
		}
	}
	if len(dirs) == 0 {
		add(h.Paths.Data())
	}
	return dirs
}

// empty is why an empty directory is left alone.
const empty = "it is empty"

// notOurData is why a directory is left alone: it has nothing that an agent made, or is one that a machine needs.
func notOurData(dir string) string {
	if strings.Count(dir, "/") < 2 {
		return "a directory of the machine is never taken away"
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "it cannot be read: " + err.Error()
	}
	if _, err := datadir.KnownState(dir); err == nil {
		return ""
	}
	for _, e := range entries {
		if e.Name() == "etcdadm" && e.IsDir() {
			return ""
		}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return setup.IsNothing(e.Name()) })
	if len(entries) == 0 {
		return empty
	}
	return "nothing in it is of etcdadm"
}

// dataItem is a data directory that is renamed as a whole, or whose content is moved where that cannot be.
func (h *Host) dataItem(dir, stamp string) Item {
	to, inside := setup.AsideOf(dir, stamp)
	return Item{Kind: setup.KindData, Path: dir, To: to, Inside: inside}
}

// files are the small ones.
func (h *Host) files(s setup.Settings, manifest setup.Manifest, listed bool, j *job) (items []Item, stays []Stays, err error) {
	aside := h.Paths.Aside(j.Stamp)
	add := func(kind setup.Kind, path, below string) {
		if there(path) && !slices.ContainsFunc(items, func(i Item) bool { return i.Path == path }) {
			items = append(items, Item{Kind: kind, Path: path, To: filepath.Join(aside, below, filepath.Base(path))})
		}
	}
	pkiDir := s.PKI(h.Paths)
	for _, name := range setup.AuthorityFiles() {
		path := filepath.Join(pkiDir, name)
		switch ours := slices.Contains(manifest.Made, setup.Made{Kind: setup.KindAuthority, Path: path}); {
		case ours, !listed && s != nil:
			add(setup.KindAuthority, path, "pki")
		case there(path):
			stays = append(stays, Stays{path, "it was there before, or somebody else's"})
		}
	}
	for _, path := range pki.RotationFiles(pkiDir) { // the agent made them
		add(setup.KindAuthority, path, "pki")
	}
	for _, path := range h.Paths.Notes() {
		add(KindNote, path, "")
	}
	for _, one := range []struct {
		kind  setup.Kind
		usual []string
		ours  func([]byte) bool
	}{{setup.KindEtcdctl, []string{h.Paths.Etcdctl(), h.Paths.EtcdctlScript()}, setup.OwnEtcdctl}, {setup.KindUnit, []string{h.Paths.Unit()}, unit.Ours}, {setup.KindPod, []string{h.Paths.PodFile("")}, staticpod.Ours}} {
		paths := one.usual
		for _, m := range manifest.Made {
			if m.Kind == one.kind && !slices.Contains(paths, m.Path) {
				paths = append(paths, m.Path)
			}
		}
		for _, path := range paths {
			text, err := regular.Read(path, regular.SmallSize)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return nil, nil, err
			case one.ours(text):
				add(one.kind, path, "")
			default:
				stays = append(stays, Stays{path, "it was not made by etcdadm"})
			}
		}
	}
	if s.Flag("dns-suffix") != "" && s.Cluster() != "" {
		items = append(items, Item{Kind: KindHosts, Path: orElseString(s.Flag("hosts-file"), filepath.Join("/", h.Paths.Root, "etc/hosts"))})
	}
	add(setup.KindSettings, h.Paths.Settings(), "")
	add(KindNote, h.Paths.Manifest(), "")
	return items, stays, nil
}

// waitFor is a pause that ends with ctx.
func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
