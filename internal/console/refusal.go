package console

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
)

// Refusal is why the daemon of a host did not start last. It is kept beside the data
// directory and not in it: that may be another cluster's, or on a disk that is full.
type Refusal struct {
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster,omitempty"` // which it was started for
	Why     string    `json:"why"`
	Hint    string    `json:"hint,omitempty"`
}

func refusalFile(dataDir string) string { return filepath.Clean(dataDir) + ".refused.json" }

// refusalWithin is for a daemon that may write to nothing but its data directory, as under a hardened unit.
func refusalWithin(dataDir string) string { return filepath.Join(dataDir, "refused.json") }

// KeepRefusal keeps it until the next start.
func KeepRefusal(dataDir string, r Refusal) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = durable.Replace(refusalFile(dataDir), data, 0o600)
	if errors.Is(err, syscall.EROFS) {
		return durable.Replace(refusalWithin(dataDir), data, 0o600)
	}
	return err
}

// DropRefusal is for a daemon that has started.
func DropRefusal(dataDir string) error {
	var errs []error
	for _, path := range []string{refusalFile(dataDir), refusalWithin(dataDir)} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EROFS) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ReadRefusal is nil where the last start was none, or cannot be read.
func ReadRefusal(dataDir string) *Refusal {
	data, err := regular.Read(refusalFile(dataDir), regular.SmallSize)
	if err != nil {
		data, err = regular.Read(refusalWithin(dataDir), regular.SmallSize)
	}
	if err != nil {
		return nil
	}
	var r Refusal
	if json.Unmarshal(data, &r) != nil || r.Why == "" {
		return nil
	}
	return &r
}
