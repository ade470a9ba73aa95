package keycopy_test

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// Revisions are raised by small gaps, and nothing else changes.
func TestRaiseTo(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V32, testetcd.V37} {
		s := start(t, version)
		s.put("k", "v", 0)
		began := time.Now()
		for _, want := range []int64{1, 4, 5000} {
			want := max(want, 2)
			if at, err := keycopy.RaiseTo(t.Context(), s.endpoint(), want); err != nil || at != want {
				t.Errorf("%s: %d instead of %d, %v", version, at, want, err)
			}
		}
		t.Logf("%s: 5000 revisions in %v", version, time.Since(began))
		if at, err := keycopy.RaiseTo(t.Context(), s.endpoint(), 1_000_000_000); !errors.Is(err, keycopy.ErrGapTooLarge) || at != 5000 {
			t.Errorf("%s: %d, %v", version, at, err)
		}
		if all := s.read(); len(all) != 1 || all["k"].Value != "v" {
			t.Errorf("%s: %v", version, all)
		}
		s.put("\x00etcdadm-raise/of a client", "v", 0)
		if _, err := keycopy.RaiseTo(t.Context(), s.endpoint(), 6000); !errors.Is(err, keycopy.ErrNotEmpty) {
			t.Errorf("%s: a client's key: %v", version, err)
		}
		if all := s.read(); len(all) != 2 {
			t.Errorf("%s: %v", version, all)
		}
	}
	if _, err := keycopy.RaiseTo(t.Context(), start(t, testetcd.V23).endpoint(), 10); !errors.Is(err, keycopy.ErrUnsupported) {
		t.Error(err)
	}
}
