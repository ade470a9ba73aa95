package snapshot

import (
	"fmt"
	"math"
	"path/filepath"
)

// LogEnd is the end of the log in a member's data directory. It changes nothing
// and takes no lock, so the member may be running: then what it is writing at
// this moment may be missing.
func LogEnd(dataDir string) (Position, error) {
	log, err := readLog(filepath.Join(dataDir, "member", "wal"), math.MaxUint64)
	if err != nil {
		return Position{}, fmt.Errorf("find the end of the log: %w", err)
	}
	return log.last, nil
}
