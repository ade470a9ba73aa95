package adoption

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/record"
)

// dirPlace is a daemon's data directory.
type dirPlace string

func (d dirPlace) path() string { return filepath.Join(string(d), "etcdadm", record.AdmissionFile) }

// ReadAdmission implements Place.
func (d dirPlace) ReadAdmission() (*record.Admission, error) {
	data, err := os.ReadFile(d.path())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read admission: %w", err)
	}
	return record.ParseAdmission(data)
}

// WriteAdmission implements Place.
func (d dirPlace) WriteAdmission(a *record.Admission) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(d.path()), 0o700); err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	if err := durable.Replace(d.path(), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	return nil
}
