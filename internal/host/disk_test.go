package host_test

import (
	"testing"
	"time"

	"etcdadm.io/internal/host/datadir"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// openDisk is a real data directory, at noon.
func openDisk(t *testing.T, dir string, held func(string) error) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(dir, held, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return d
}
