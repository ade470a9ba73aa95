package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/regular"
)

// dirDrill lies below the state directory: what backups and changes of version are
// tried out in, one at a time. What a daemon that was killed left there goes with the
// next start, or the next trial.
const (
	dirDrill  = "drill"
	fileTrial = "trial.json"
)

// mostCuts is how often a rehearsal may be cut short by the end of the daemon. One that
// always is, as where memory runs out, must not be begun for ever.
const mostCuts = 3

// trial is the record of a rehearsal that has begun; it goes when that ends.
type trial struct {
	Name  string `json:"name"`
	Begun int    `json:"begun"` // how often
}

func (s *Sources) drillDir() string { return filepath.Join(s.o.Disk.StateDir(), dirDrill) }

// clearDrills takes away what was being tried out, but for the record of it.
func (s *Sources) clearDrills() error {
	for _, of := range []struct{ dir, prefix string }{
		{s.drillDir(), ""},
		{s.o.Disk.StateDir(), "etcdadm-drill-"}, // of releases before this one
	} {
		entries, err := os.ReadDir(of.dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("look for what was tried out: %w", err)
		}
		for _, e := range entries {
			if e.Name() == fileTrial || !strings.HasPrefix(e.Name(), of.prefix) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(of.dir, e.Name())); err != nil {
				return fmt.Errorf("take away what was tried out: %w", err)
			}
		}
	}
	return nil
}

// drillRoom is an empty place to try something out in.
func (s *Sources) drillRoom() (string, error) {
	if err := s.clearDrills(); err != nil {
		return "", err
	}
	if err := os.Mkdir(s.drillDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make room to try something out: %w", err)
	}
	return s.drillDir(), nil
}

// beginTrial counts that a rehearsal begins.
func (s *Sources) beginTrial(name string) error {
	file := filepath.Join(s.drillDir(), fileTrial)
	var t trial
	had, err := regular.Read(file, regular.SmallSize)
	if errors.Is(err, regular.ErrNotRegular) { // it could not be written either
		return fmt.Errorf("count rehearsals: %w", err)
	}
	if err == nil && (json.Unmarshal(had, &t) != nil || t.Name != name) {
		t = trial{} // of another one, or torn
	}
	if t.Begun >= mostCuts {
		return fmt.Errorf("the daemon ended %d times while it was at it", t.Begun)
	}
	data, err := json.Marshal(trial{Name: name, Begun: t.Begun + 1})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write down that a rehearsal begins: %w", err)
	}
	return nil
}

// endTrial: it came to its end, however that was, and the daemon is still there.
func (s *Sources) endTrial() error {
	err := os.Remove(filepath.Join(s.drillDir(), fileTrial))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.clearDrills())
}
