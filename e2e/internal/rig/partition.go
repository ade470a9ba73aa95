package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Mark is how long a daemon's log is now.
func (h *Host) Mark() int {
	h.C.T.Helper()
	data, err := os.ReadFile(h.Log)
	if err != nil {
		h.C.T.Fatal(err)
	}
	return len(data)
}

// Actions are the steps that a daemon has decided on since a mark.
func (h *Host) Actions(since int) []string {
	h.C.T.Helper()
	data, err := os.ReadFile(h.Log)
	if err != nil {
		h.C.T.Fatal(err)
	}
	var out []string
	for line := range bytes.Lines(data[since:]) {
		if bytes.Contains(line, []byte("msg=decision")) && bytes.Contains(line, []byte(" action=")) {
			out = append(out, string(line))
		}
	}
	return out
}

// Idle complains when a daemon has decided on a step since a mark.
func (h *Host) Idle(since int) {
	h.C.T.Helper()
	if steps := h.Actions(since); len(steps) > 0 {
		h.C.T.Errorf("host %d decided on what it must not touch:\n%s", h.N, strings.Join(steps, ""))
	}
}

// Same complains when hosts have other members than before.
func Same(t *testing.T, before, after []*etcdserverpb.Member) {
	t.Helper()
	for i := range before {
		if before[i].ID != after[i].ID {
			t.Errorf("member %x became %x", before[i].ID, after[i].ID)
		}
	}
}

// Passes lets time pass in which something must not happen.
func (c *Cluster) Passes(d time.Duration) {
	c.T.Helper()
	end := time.Now().Add(d)
	Eventually(c.T, d+Soon, "time passes", func(context.Context) error {
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("%s left", left)
		}
		return nil
	})
}
