package setup

import (
	"cmp"
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
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/runtime"
	"golang.org/x/sys/unix"
)

// unfinished ends the name of a directory into which things are being moved one by one.
const unfinished = ".part"

// Stamp is a time in the names of what is set aside.
func Stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// AsideOf is where a data directory is set aside: beside it, or inside it where it is a mount or a link and stays.
func AsideOf(dir, stamp string) (to string, inside bool) {
	if stuck(dir) {
		return filepath.Join(dir, AsidePrefix+stamp), true
	}
	return dir + "." + AsidePrefix + stamp, false
}

// stuck tells whether a directory cannot be renamed, or should not be: a mount, a link.
func stuck(dir string) bool {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return true
	}
	var here, above unix.Stat_t
	if unix.Stat(dir, &here) != nil || unix.Stat(filepath.Dir(dir), &above) != nil {
		return true
	}
	return here.Dev != above.Dev
}

// MoveInside moves all that is in a directory into one below it. What was set aside earlier stays.
func MoveInside(dir, to string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "lost+found" || strings.HasPrefix(e.Name(), AsidePrefix) {
			continue
		}
		if err := durable.MakeDir(to, modeData); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	if !exists(to) {
		return nil
	}
	return errors.Join(durable.SyncDir(to), durable.SyncDir(dir))
}

// Aside is something that a new cluster cannot have on this machine, and where it is set aside.
type Aside struct {
	What   string `json:"what"`
	From   string `json:"from"`
	To     string `json:"to"`
	inside bool
}

// standingData is whose data lies in the data directory.
type standingData int

const (
	dataNone    standingData = iota // nothing that counts
	dataSame                        // of the cluster that is set up
	dataOther                       // of another cluster of ours
	dataUnknown                     // of another program, or of nobody knows whom
	dataSilent                      // it cannot be looked at
)

// foundData is what lies in the data directory.
type foundData struct {
	standing standingData
	words    string
}

// findData looks whose data there is. mine is the hash of the authority that the cluster has, "" where there is none yet: a
// record that the hosts keep is the same cluster's only by that, since many clusters have the usual name.
func (m *Machine) findData(ctx context.Context, s Settings, mine string) foundData {
	dir := s.Flag("data-dir")
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return foundData{dataNone, dir + ", which will be made"}
	case err != nil:
		return foundData{dataSilent, err.Error()}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return IsNothing(e.Name()) })
	if len(entries) == 0 {
		return foundData{dataNone, dir + " is empty"}
	}
	state, err := datadir.KnownState(dir)
	switch {
	case err == nil && state.Cluster != s.Cluster() && s.Cluster() != "":
		return foundData{dataOther, fmt.Sprintf("%s has data of cluster %s", dir, state.Cluster)}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return foundData{dataUnknown, err.Error()}
	case err != nil && m.Paths.handedOver(s):
		return foundData{dataSame, dir + " has the data that the agent takes over"}
	case err != nil && !agentsOnly(entries):
		return foundData{dataUnknown, dir + " is not empty, and nothing in it is of etcdadm"}
	}
	if other := m.Paths.otherRecord(ctx, s, mine); other != "" {
		return foundData{dataOther, other}
	}
	if err == nil {
		return foundData{dataSame, fmt.Sprintf("%s has data of cluster %s", dir, state.Cluster)}
	}
	return foundData{dataSame, dir + " has what an agent made that did not come far"} // a first start that was cut short
}

// handedOver tells whether the data are those that this host's settings were written for, and that no agent has taken over yet.
func (p Paths) handedOver(s Settings) bool {
	if _, err := ReadSettings(p); err != nil {
		return false
	}
	dir := s.Flag("data-dir")
	id, err := datadir.KnownID(dir)
	return err == nil && id == s.HostID() && exists(filepath.Join(dir, "state"))
}

// otherRecord says that the record which this host keeps is of a cluster with other authorities; "": it is not, or there is none.
func (p Paths) otherRecord(ctx context.Context, s Settings, mine string) string {
	dir := s.Flag("data-dir")
	if _, err := ReadSettings(p); err == nil || !exists(filepath.Join(dir, "etcdadm", keeper.FileName)) {
		return "" // a host of it
	}
	founder, err := kept.Founder(ctx, dir, func(ctx context.Context, store blob.Store) (string, error) {
		return control.New(store, cmp.Or(s.Cluster(), DefaultCluster)).Known().Tokens().Founder(ctx)
	})
	switch {
	case err != nil:
		return fmt.Sprintf("%s holds the record of a cluster, which cannot be read: %v", dir, err)
	case founder == "" || founder != mine:
		return dir + " holds the record of a cluster with other authorities"
	}
	return ""
}

const setAsideHint = "if nobody needs it: run the command again with --set-aside, which moves it away and deletes nothing"

// checkData: the data directory is empty, or of the cluster that is set up, or is set aside.
func (m *Machine) checkData(s Settings, found foundData, aside []Aside) Check {
	const name = "data directory"
	dir := s.Flag("data-dir")
	if i := slices.IndexFunc(aside, func(a Aside) bool { return a.From == dir }); i >= 0 {
		if held := runsOn(dir); held != nil {
			return refuse(name, "stop what runs there, and run the command again", "%s: %v", found.words, held)
		}
		return warn(name, "", "%s; it will be set aside: %s", found.words, aside[i].To)
	}
	switch found.standing {
	case dataOther:
		return refuse(name, "use another machine; "+setAsideHint, "%s", found.words)
	case dataUnknown:
		return refuse(name, "an etcd of another program is taken over with --adopt; "+setAsideHint, "%s", found.words)
	case dataSilent:
		return refuse(name, "look at that directory and its disk", "%s", found.words)
	}
	return good(name, "%s", found.words)
}

// runsOn is an error where an agent or an etcd runs on a directory, or where that cannot be told.
func runsOn(dir string) error {
	state := filepath.Join(dir, "etcdadm")
	if exists(state) {
		lock, err := runtime.LockStateDir(state)
		if err != nil {
			return err
		}
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	dirs := []string{dir}
	if below, err := filepath.Glob(filepath.Join(dir, "data", "*")); err == nil {
		dirs = append(dirs, below...)
	}
	for _, one := range dirs {
		if err := runtime.CheckUnlocked(one); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}

// inTheWay is what a person has set aside: data that are not of the cluster that is set up, and authorities of another one than
// is joined.
func (p Paths) inTheWay(s Settings, found foundData, otherAuthorities bool) (out []Aside) {
	stamp := Stamp(time.Now())
	if dir := s.Flag("data-dir"); found.standing == dataOther || found.standing == dataUnknown {
		to, inside := AsideOf(dir, stamp)
		out = append(out, Aside{"data directory", dir, to, inside})
	}
	if len(out) > 0 && exists(p.begun()) { // else the next cluster would not grow
		out = append(out, Aside{"note of the cluster that was begun", p.begun(), filepath.Join(p.Aside(stamp), filepath.Base(p.begun())), false})
	}
	if otherAuthorities {
		out = append(out, Aside{"authorities", p.PKI(), filepath.Join(p.Aside(stamp), filepath.Base(p.PKI())), false})
	}
	return out
}

// setAside moves one thing to its place, never over something. What is gone was moved by another run.
func setAside(_ context.Context, a Aside) error {
	if !exists(a.From) {
		return nil
	}
	if a.What == "data directory" {
		if held := runsOn(a.From); held != nil {
			return &Error{Problem: "set " + a.From + " aside", Err: held, Advice: "stop what runs there, and run the command again"}
		}
	}
	if a.inside {
		return moveAsideInside(a.From, a.To)
	}
	if err := durable.MakeDir(filepath.Dir(a.To), modeDir); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, a.From, unix.AT_FDCWD, a.To, unix.RENAME_NOREPLACE)
	if errors.Is(err, fs.ErrExist) {
		return &Error{Problem: a.To + " exists", Advice: "run the command again"}
	}
	if err != nil {
		return fmt.Errorf("%s to %s: %w", a.From, a.To, err)
	}
	return errors.Join(durable.SyncDir(filepath.Dir(a.To)), durable.SyncDir(filepath.Dir(a.From)))
}

// moveAsideInside goes on with what an earlier run has begun, so that the data of one cluster end in one directory.
func moveAsideInside(dir, to string) error {
	part := to + unfinished
	if begun, err := filepath.Glob(filepath.Join(dir, AsidePrefix+"*"+unfinished)); err == nil && len(begun) == 1 {
		part = begun[0]
	}
	if err := MoveInside(dir, part); err != nil {
		return err
	}
	if !exists(part) {
		return nil
	}
	if err := unix.Renameat2(unix.AT_FDCWD, part, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("%s to %s: %w", part, to, err)
	}
	return durable.SyncDir(dir)
}

// asideSteps come before all others.
func asideSteps(all []Aside) (steps []step) {
	for _, a := range all {
		steps = append(steps, step{fmt.Sprintf("set the %s %s aside: %s", a.What, a.From, a.To), func(ctx context.Context) error { return setAside(ctx, a) }})
	}
	return steps
}

// MembersIn are the directories here that an etcd has its data in: that of an agent's member, and the data directory itself
// where it is one of an etcd that is being taken over. A file in the place of the data is a guard, and no member.
func MembersIn(dataDir string) (dirs []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dataDir, "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := []string{dataDir}
	for _, e := range entries {
		all = append(all, filepath.Join(dataDir, "data", e.Name()))
	}
	for _, dir := range all {
		info, err := os.Stat(filepath.Join(dir, "member"))
		switch {
		case err == nil && info.IsDir():
			dirs = append(dirs, dir)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return nil, err
		}
	}
	return dirs, nil
}

// HoldsMember tells whether a member's data lies in a data directory, or may: it cannot be looked at.
func HoldsMember(dataDir string) bool {
	dirs, err := MembersIn(dataDir)
	return err != nil || len(dirs) > 0
}

// hasMember tells whether an agent of this cluster has had a member here.
func (m *Machine) hasMember(s Settings) bool {
	state, err := datadir.KnownState(s.Flag("data-dir"))
	return err == nil && state.Cluster == s.Cluster() && state.Local.State != cluster.MemberNone
}

// IsNothing tells whether an entry of a data directory does not count as data: what the file system made, what was set aside
// earlier, and a probe of the disk that was killed.
func IsNothing(name string) bool {
	return name == "lost+found" || strings.HasPrefix(name, AsidePrefix) || strings.HasPrefix(name, probePrefix)
}

// agentsOnly tells whether there is nothing but what an agent makes before it has a state.
func agentsOnly(entries []fs.DirEntry) bool {
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !slices.Contains([]string{"etcdadm", "kept", "myid", "logs", "pki", "refused.json"}, e.Name())
	})
}
