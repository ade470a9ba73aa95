package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/journal"
	"etcdadm.io/internal/regular"
)

// Layout of a data directory.
const (
	fileMyID    = "myid"          // the host ID
	dirState    = "etcdadm"       // ours
	fileState   = "state.json"    // below dirState
	fileJournal = "journal.json"  // below dirState
	dirData     = "data"          // etcd's, one directory a token
	dirAside    = "data-trashcan" // what was set aside
	fileNote    = ".json"         // suffix of the note beside it

	// fileMark lies inside of etcd's member directory, where etcd looks at
	// names that it knows only; beside it, etcd would warn about it at each
	// start. It is gone when somebody clears the member directory.
	fileMark = "etcdadm-disk.json"

	// filePredecessor is the state of etcd-manager.
	filePredecessor = "state"
)

// Dir is one data directory:
//
//	myid                                    host ID
//	etcdadm/state.json                      the State, with a checksum
//	etcdadm/journal.json                    file operations that were begun
//	data/<token>/                           etcd's data directory
//	data/<token>/member/etcdadm-disk.json   the mark
//	data-trashcan/<token>-<time>-<reason>/  set aside, with a note in .json beside it
//
// The caller holds the lock of the state directory ([Dir.StateDir]).
type Dir struct {
	files durable.Disk
	root  string
	held  func(dataDir string) error
	now   func() time.Time

	mu      sync.Mutex // guards the journal: one list of file operations at a time
	journal *journal.Journal
}

// Open makes the directories that are missing. Held returns an error
// when a process holds etcd's locks in a data directory; now gives the time
// for the names of what is set aside, nil means time.Now.
func Open(dataDir string, held func(dataDir string) error, now func() time.Time) (*Dir, error) {
	return OpenOn(durable.OS(), dataDir, held, now)
}

// OpenOn is Open that writes through files.
func OpenOn(files durable.Disk, dataDir string, held func(dataDir string) error, now func() time.Time) (*Dir, error) {
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	d := &Dir{files: files, root: root, held: held, now: now}
	if err := files.MkdirAll(d.StateDir(), 0o700); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := files.SyncDir(root); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	return d, nil
}

// StateDir is where the host's own files lie. It exists.
func (d *Dir) StateDir() string { return filepath.Join(d.root, dirState) }

// DataDir is etcd's data directory for a token.
func (d *Dir) DataDir(token string) string { return filepath.Join(d.root, dirData, token) }

// KnownState is the state that a data directory has, for whoever only looks: nothing is
// made or mended.
func KnownState(dataDir string) (record.State, error) {
	b, err := regular.Read(filepath.Join(dataDir, dirState, fileState), maxState)
	if err != nil {
		return record.State{}, fmt.Errorf("look at state: %w", err)
	}
	return decodeState(b)
}

// maxState bounds, in bytes, what a look reads of a state: ours have a few kilobytes.
const maxState = 16 << 20

// KnownID is the host ID that a data directory has.
func KnownID(dataDir string) (cluster.HostID, error) {
	b, err := regular.Read(filepath.Join(dataDir, fileMyID), regular.SmallSize)
	if err != nil {
		return "", fmt.Errorf("read host ID: %w", err)
	}
	return cluster.HostID(strings.TrimSpace(string(b))), nil
}

// HostID reads the host ID of a data directory, or mints and keeps one.
func HostID(dataDir string, mint func() string) (cluster.HostID, error) {
	path := filepath.Join(dataDir, fileMyID)
	b, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(b))
		if id == "" {
			return "", fmt.Errorf("read host ID: %s is empty; write the host's ID into it, or move it away for a new one", path)
		}
		return cluster.HostID(id), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read host ID: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return "", fmt.Errorf("keep host ID: %w", err)
	}
	id := mint()
	if err := durable.Replace(path, []byte(id), 0o644); err != nil {
		return "", fmt.Errorf("keep host ID: %w", err)
	}
	return cluster.HostID(id), nil
}

// ErrCorruptState is in the chain of an error about a state file that was
// damaged.
var ErrCorruptState = errors.New("the state file is damaged")

// stateFile is a State and its checksum, so that a flipped bit is not taken for
// a promise.
type stateFile struct {
	State  json.RawMessage `json:"state"`
	SHA256 string          `json:"sha256"` // of the state without insignificant space
}

// Load finishes the file operations that a crash left, and reads the state.
func (d *Dir) Load() (s record.State, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.openJournal(); err != nil {
		return record.State{}, false, fmt.Errorf("load state: %w", err)
	}
	path := filepath.Join(d.StateDir(), fileState)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record.State{}, false, nil
	}
	if err != nil {
		return record.State{}, false, fmt.Errorf("load state: %w", err)
	}
	s, err = decodeState(b)
	if err != nil {
		return record.State{}, false, fmt.Errorf("load state %s: %w", path, err)
	}
	// A process that was killed between the rename and the sync has left a promise
	// that a power cut takes back, and this one tells others what it has read.
	if err := d.files.SyncDir(d.StateDir()); err != nil {
		return record.State{}, false, fmt.Errorf("load state: make it durable: %w", err)
	}
	return s, true, nil
}

// decodeState reads a state, of which this release knows all: of another one the error is a
// *cluster.NewerError, and of a damaged one it has ErrCorruptState in its chain.
func decodeState(b []byte) (record.State, error) {
	var f stateFile
	if err := json.Unmarshal(b, &f); err != nil {
		return record.State{}, fmt.Errorf("%w: %w", ErrCorruptState, err)
	}
	if sum, err := checksum(f.State); err != nil || sum != f.SHA256 {
		return record.State{}, fmt.Errorf("%w: the checksum does not match", ErrCorruptState)
	}
	// What is not known here would be gone with the next epoch, which writes the state anew: a
	// promise of a later kind, or a part of the intent.
	var s record.State
	err := cluster.UnmarshalKnown(f.State, &s, record.WhatState)
	if err == nil {
		err = cluster.UnmarshalKnown(b, &f, record.WhatState)
	}
	switch {
	case errors.As(err, new(*cluster.NewerError)):
		return record.State{}, err
	case err != nil:
		return record.State{}, fmt.Errorf("%w: %w", ErrCorruptState, err)
	}
	return s, nil
}

func checksum(state json.RawMessage) (string, error) {
	b, err := json.Marshal(state) // compacts
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// openJournal opens the journal once; the caller holds the mutex.
func (d *Dir) openJournal() error {
	if d.journal != nil {
		return nil
	}
	j, err := journal.Open(d.files, d.root, filepath.Join(dirState, fileJournal))
	if err != nil {
		return err
	}
	d.journal = j
	return nil
}

// Save replaces the state.
func (d *Dir) Save(s record.State) error {
	state, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	sum, err := checksum(state)
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	b, err := json.MarshalIndent(stateFile{State: state, SHA256: sum}, "", "  ")
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return d.files.Replace(filepath.Join(d.StateDir(), fileState), append(b, '\n'), 0o600)
}

// WriteRecord keeps a small file of a driver of this host durably beside the
// state, such as the runtime's record of its process.
func (d *Dir) WriteRecord(name string, data []byte) error {
	if err := plainName(name); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return d.files.Replace(filepath.Join(d.StateDir(), name), data, 0o600)
}

// ReadRecord reads what WriteRecord kept; nil without error when there is none.
func (d *Dir) ReadRecord(name string) ([]byte, error) {
	if err := plainName(name); err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(d.StateDir(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// plainName refuses what is not the name of one thing in a directory.
func plainName(name string) error {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) || strings.HasPrefix(name, ".") || len(name) > 128 {
		return fmt.Errorf("%q cannot be a name in a directory", name)
	}
	return nil
}

// mark is what lies in a data directory to say whose it is.
type mark struct {
	Disk  cluster.DiskID `json:"disk"`
	Token string         `json:"token"`
}

func memberDir(token string) string { return filepath.Join(dirData, token, "member") }

// changeData carries out a change of a token's data directory: one at a time,
// after what the journal still held, and told what is there already, which is
// the mark of this disk and a log.
func (d *Dir) changeData(what, token string, disk cluster.DiskID, change func(marked, wal bool) error) error {
	if err := plainName(token); err != nil {
		return fmt.Errorf("%s: token %w", what, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.openJournal()
	if err == nil {
		var marked, wal bool
		if marked, wal, err = d.Data(token, disk); err == nil {
			err = change(marked, wal)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// CreateData is as Disk says.
func (d *Dir) CreateData(token string, disk cluster.DiskID) error {
	return d.changeData("create data directory", token, disk, func(marked, _ bool) error {
		if marked {
			return nil
		}
		empty, err := d.isEmpty(token)
		if err != nil {
			return err
		}
		if !empty {
			return fmt.Errorf("%s holds something already", d.DataDir(token))
		}
		content, err := json.Marshal(mark{Disk: disk, Token: token})
		if err != nil {
			return err
		}
		return d.journal.Run([]journal.Step{
			{Kind: journal.Mkdir, Path: dirData},
			{Kind: journal.Mkdir, Path: filepath.Join(dirData, token)},
			{Kind: journal.Mkdir, Path: memberDir(token)},
			{Kind: journal.Write, Path: filepath.Join(memberDir(token), fileMark), Data: content},
		})
	})
}

// isEmpty reports whether a data directory is missing, or holds nothing but
// what CreateData puts there, without a mark or with any.
func (d *Dir) isEmpty(token string) (bool, error) {
	outer, err := names(d.DataDir(token))
	if err != nil {
		return false, err
	}
	inner, err := names(filepath.Join(d.root, memberDir(token)))
	if err != nil {
		return false, err
	}
	outer = slices.DeleteFunc(outer, func(n string) bool { return n == "member" })
	inner = slices.DeleteFunc(inner, func(n string) bool { return n == fileMark || strings.HasPrefix(n, "."+fileMark) })
	return len(outer) == 0 && len(inner) == 0, nil
}

// names lists a directory; one that is not there is empty.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// Data is as Disk says.
func (d *Dir) Data(token string, disk cluster.DiskID) (marked, wal bool, err error) {
	if err := plainName(token); err != nil {
		return false, false, fmt.Errorf("look at data directory: token %w", err)
	}
	dir := filepath.Join(d.root, memberDir(token))
	b, err := os.ReadFile(filepath.Join(dir, fileMark))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, fmt.Errorf("look at data directory: %w", err)
	}
	if err == nil {
		var m mark
		marked = json.Unmarshal(b, &m) == nil && m.Disk == disk && m.Token == token
	}
	logs, err := names(filepath.Join(dir, "wal"))
	if err != nil {
		return false, false, fmt.Errorf("look at data directory: %w", err)
	}
	// As etcd itself decides it.
	wal = slices.ContainsFunc(logs, func(n string) bool { return filepath.Ext(n) == ".wal" })
	return marked, wal, nil
}

// Admission is as Disk says.
func (d *Dir) Admission() (*record.Admission, error) {
	data, err := d.ReadRecord(record.AdmissionFile)
	if err != nil {
		return nil, fmt.Errorf("read admission: %w", err)
	}
	return record.ParseAdmission(data)
}
