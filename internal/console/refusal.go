package console

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// KeepRefusal keeps it until the next start.
func KeepRefusal(dataDir string, r Refusal) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Replace(refusalFile(dataDir), data, 0o600)
}

// DropRefusal is for a daemon that has started.
func DropRefusal(dataDir string) error {
	if err := os.Remove(refusalFile(dataDir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadRefusal is nil where the last start was none, or cannot be read.
func ReadRefusal(dataDir string) *Refusal {
	data, err := regular.Read(refusalFile(dataDir), regular.SmallSize)
	if err != nil {
		return nil
	}
	var r Refusal
	if json.Unmarshal(data, &r) != nil || r.Why == "" {
		return nil
	}
	return &r
}
