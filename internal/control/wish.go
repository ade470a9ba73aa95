package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// fileWish is a command of a kind that the predecessor does not have. It lies
// in a folder of its own in the queue, which the predecessor passes over since
// there is no command of its kind in it.
const fileWish = "_etcdadm_command.json"

// Wish is a command of ours: recover, undo, or a backup on demand.
type Wish struct {
	Kind cluster.CommandKind `json:"kind"`
	Host cluster.HostID      `json:"host,omitempty"`
	Dir  string              `json:"dir,omitempty"`
	Lost []cluster.HostID    `json:"lost,omitempty"`
	// Count, when given, is the member count that is wanted from then on.
	Count *cluster.CountChange `json:"count,omitempty"`
	// KeepFor is how long a backup is kept at least; zero: as the policy has it. Daemons of a release that does not know it
	// reject the command.
	KeepFor time.Duration `json:"keepFor,omitempty"` // nanoseconds
	// Seen is what a person saw who asks for an undo; nil: nobody looked.
	Seen *cluster.Seen `json:"seen,omitempty"`
	// By is who asked, as others may know them. It is told, and nothing hangs on it.
	By string `json:"by,omitempty"`
}

type wishFile struct {
	Timestamp string `json:"timestamp"` // unix nanoseconds, as in the predecessor's
	Wish
}

func (w Wish) check() error {
	switch w.Kind {
	case cluster.CommandBackup:
		if w.KeepFor < 0 {
			return fmt.Errorf("it has a backup kept for %s", w.KeepFor)
		}
	case cluster.CommandRecover:
		if w.Host == "" {
			return errors.New("it names no host to recover from")
		}
	case cluster.CommandUndo:
		if w.Host == "" || w.Dir == "" || strings.ContainsAny(w.Dir, "/\\") || blob.ValidateKey(w.Dir) != nil {
			return errors.New("it names no host, or no directory that was set aside there")
		}
	default:
		return fmt.Errorf("its kind %q is not known", w.Kind)
	}
	return nil
}

// AddWish puts a command of ours into the queue and returns its name.
func (f *Folder) AddWish(ctx context.Context, w Wish) (string, error) {
	at := time.Now().UTC()
	put, err := queue{f}.putWish(ctx, at, w)
	if err != nil {
		return "", err
	}
	return queue{f}.addCommand(ctx, at, put)
}

// AddWishOnce is AddWish under a name of [CommandName]: a command that was added under it already is left as it is, also one
// that ended since. It ages since the time at which its asker said it.
func (f *Folder) AddWishOnce(ctx context.Context, name string, since time.Time, w Wish) error {
	put, err := queue{f}.putWish(ctx, since, w)
	if err != nil {
		return err
	}
	return queue{f}.addOnce(ctx, name, put)
}

// putWish writes a command of ours into a folder, and tells whether that was free.
func (f queue) putWish(ctx context.Context, at time.Time, w Wish) (func(dir string) (bool, error), error) {
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("add command: %w", err)
	}
	data, err := json.Marshal(wishFile{Timestamp: fmt.Sprint(at.UnixNano()), Wish: w})
	if err != nil {
		return nil, fmt.Errorf("add command: %w", err)
	}
	return func(dir string) (bool, error) {
		if _, err := f.putOnCondition(ctx, dir+fileWish, data, blob.IfAbsent); err != nil {
			return taken(err)
		}
		return true, nil
	}, nil
}

// wish reads a command of ours. Its error is the store's.
func (f queue) wish(ctx context.Context, name string) (Command, error) {
	c := Command{Name: name}
	data, _, err := blob.ReadAll(ctx, f.store, Prefix+name+"/"+fileWish, maxObject)
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		c.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return c, nil
	case err != nil:
		return Command{}, err
	}
	var w wishFile
	if err := parseStrict(data, &w); err != nil {
		c.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return c, nil
	}
	var ns int64
	if _, err := fmt.Sscan(w.Timestamp, &ns); err != nil {
		c.Err = fmt.Errorf("%w: its timestamp %q is no number", ErrMalformed, w.Timestamp)
		return c, nil
	}
	if err := w.check(); err != nil {
		c.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return c, nil
	}
	c.Timestamp, c.Wish = time.Unix(0, ns).UTC(), &w.Wish
	return c, nil
}

// Ended is how a command ended that is not in the queue any more.
type Ended struct {
	Name   string              `json:"name"`
	Kind   cluster.CommandKind `json:"kind,omitempty"`
	Backup string              `json:"backup,omitempty"` // that was restored, or taken
	Host   cluster.HostID      `json:"host,omitempty"`   // whose data it was about
	Dir    string              `json:"dir,omitempty"`    // likewise, as the host calls it
	Result string              `json:"result"`
	Reason string              `json:"reason,omitempty"`
	At     time.Time           `json:"at"`
}

// keptEnded is how many ended commands are remembered.
const keptEnded = 200

// EndCommand keeps how a command ended, and takes it out of the queue. Done
// twice it is no error.
func (f *Folder) EndCommand(ctx context.Context, e Ended) error {
	for range 3 {
		all, cond, err := queue{f}.readEnded(ctx)
		if err != nil {
			return err
		}
		known := false
		for _, o := range all {
			known = known || o.Name == e.Name
		}
		if !known {
			all = append(all, e)
			data, err := json.Marshal(all[max(0, len(all)-keptEnded):])
			if err != nil {
				return fmt.Errorf("keep the end of a command: %w", err)
			}
			if _, err = f.putOnCondition(ctx, keyEnded, data, cond); errors.Is(err, blob.ErrPreconditionFailed) {
				continue
			} else if err != nil {
				return fmt.Errorf("keep the end of a command: %w", err)
			}
		}
		return queue{f}.remove(ctx, e.Name)
	}
	return fmt.Errorf("keep the end of a command: %w", ErrConflict)
}

// EndedCommands lists how commands ended, the last one last.
func (f *Folder) EndedCommands(ctx context.Context) ([]Ended, error) {
	all, _, err := queue{f}.readEnded(ctx)
	return all, err
}

func (f queue) readEnded(ctx context.Context) ([]Ended, blob.Condition, error) {
	data, tag, err := blob.ReadAll(ctx, f.store, keyEnded, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, blob.IfAbsent, nil
	case err != nil:
		return nil, "", fmt.Errorf("read how commands ended: %w", err)
	}
	var all []Ended
	if json.Unmarshal(data, &all) != nil {
		all = nil // only told, never acted on; it is written anew
	}
	return all, blob.IfMatch(tag), nil
}

// FlagNoBackup is a flag of a restore command: do not wait for a backup of the
// running cluster.
const FlagNoBackup = "no-backup"

const (
	flagVersion    = "to-version="
	flagAcceptLoss = "accept-loss="
)

// AcceptLossFlag is the flag of a restore command that takes the list of what cannot be
// carried over key by key, by its digest.
func AcceptLossFlag(digest string) string { return flagAcceptLoss + digest }

// FlagAcceptLoss reads what AcceptLossFlag writes.
func FlagAcceptLoss(flag string) (digest string, ok bool) {
	return strings.CutPrefix(flag, flagAcceptLoss)
}

// VersionFlag is the flag of a restore command that names the release that
// the new generation runs.
func VersionFlag(v cluster.Version) string { return flagVersion + v.String() }

// FlagVersion reads what VersionFlag writes.
func FlagVersion(flag string) (cluster.Version, bool) {
	s, ok := strings.CutPrefix(flag, flagVersion)
	if !ok {
		return cluster.Version{}, false
	}
	v, err := cluster.ParseVersion(s)
	return v, err == nil
}
