package backupstore

import (
	"testing"
	"time"
)

// The newest of several backups of one second is the last by its name.
func TestNamesSortWithinASecond(t *testing.T) {
	second := time.Date(2026, 11, 21, 12, 58, 15, 0, time.UTC)
	last := ""
	for ms := range 1000 {
		name, err := drawName(second.Add(time.Duration(ms) * time.Millisecond))
		if err != nil || string(name) <= last {
			t.Fatalf("%d ms: %s after %s (%v)", ms, name, last, err)
		}
		last = string(name)
	}
}
