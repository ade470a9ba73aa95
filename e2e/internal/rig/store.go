package rig

import (
	"strings"
)

// Never checks that a daemon has not said something.
func (h *Host) Never(words string) {
	h.C.T.Helper()
	if strings.Contains(Tail(h.Log, 1<<20), words) {
		h.C.T.Errorf("the daemon of host %d says %q", h.N, words)
	}
}
