package cli

import (
	"errors"
	"strings"
	"testing"
)

// Where a daemon tells the URL of an object store, and the store then does not let the
// shell in, it is said that the daemon has settings which the shell lacks.
func TestStoreOfADaemonIsReachedWithItsSettings(t *testing.T) {
	broken := errors.New("no credentials")
	for told, want := range map[string]bool{"": false, "file:///backups": false, "s3://bucket/etcd": true} {
		err := (&backups{told: told}).elsewhere(broken)
		var f *Failure
		if !errors.Is(err, broken) || (errors.As(err, &f) && strings.Contains(f.Hint(), "--env-file")) != want {
			t.Errorf("%q: %v", told, err)
		}
	}
	if err := (&backups{told: "s3://bucket"}).elsewhere(nil); err != nil {
		t.Error(err)
	}
}
