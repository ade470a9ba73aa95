package azure_test

import (
	"errors"
	"strings"
	"testing"

	"etcdadm.io/internal/blob"
)

// wantHint checks that an error is for people: it has a hint, it fits on a line, and it holds no secret.
func wantHint(t *testing.T, err, sentinel error, words string) {
	t.Helper()
	told, ok := errors.AsType[*blob.Error](err)
	if !ok || !strings.Contains(err.Error(), words) || told.Hint() == "" {
		t.Fatalf("%v, want %q and a hint", err, words)
	}
	if sentinel != nil && !errors.Is(err, sentinel) {
		t.Errorf("%v is not %v", err, sentinel)
	}
	if errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v counts as not found", err)
	}
	if strings.Contains(err.Error()+told.Hint(), "wrong-secret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error repeats a secret, or has several lines: %q", err)
	}
}
