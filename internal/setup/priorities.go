package setup

import (
	"context"
	"path/filepath"

	"etcdadm.io/internal/unit"
)

// Priority is the drop-in of the unit with what was asked for of CPU and disk.
func (p Paths) Priority() string {
	return p.at("etc/systemd/system", unit.Name+".d", "10-priorities.conf")
}

// prioritySteps write the drop-in, where something was asked for.
func (m *Machine) prioritySteps(priorities map[string]string) []step {
	if len(priorities) == 0 {
		return nil
	}
	path := m.Paths.Priority()
	return []step{{"write the drop-in " + path, func(context.Context) error {
		data, err := unit.Priorities(priorities)
		if err != nil {
			return err
		}
		if err := m.note(KindDirectory, filepath.Dir(path)); err != nil {
			return err
		}
		if err := put(path, data, modePublic, unit.Ours); err != nil {
			return err
		}
		return m.Paths.noteOurs(KindUnit, path)
	}}}
}
