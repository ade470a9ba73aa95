package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"etcdadm.io/backup"
	"etcdadm.io/internal/cli"
)

// BackupsGoOn waits for two more backups by themselves, and for one on demand.
func (c *Cluster) BackupsGoOn(what string) {
	c.T.Helper()
	known := map[string]bool{}
	for _, b := range c.ListBackups() {
		known[b.Name] = true
	}
	name := c.TakeBackup()
	if known[name] {
		c.T.Errorf("%s: backup %s was there before it was asked for", what, name)
	}
	Eventually(c.T, Soon, what+": two more backups by themselves", func(context.Context) error {
		n := 0
		for _, b := range c.ListBackups() {
			if !known[b.Name] && b.Reason == string(backup.ReasonPeriodic) {
				n++
			}
		}
		if n < 2 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands"); r.Code != cli.ExitOK || strings.Contains(r.Stdout, "Z-") {
		c.T.Errorf("%s: a command was not run, or not once: %s", what, r)
	}
}

// TriedOut waits until a backup was found good in a drill.
func (c *Cluster) TriedOut() {
	c.T.Helper()
	Eventually(c.T, Soon, "a backup is tried out", func(context.Context) error {
		if !slices.ContainsFunc(c.ListBackups(), func(b Listed) bool { return b.Proven == string(backup.DepthDrilled) }) {
			return errors.New("none was")
		}
		return nil
	})
}

// SaidSince waits for words in the host's log behind a mark.
func (h *Host) SaidSince(mark int, words string) {
	h.C.T.Helper()
	Eventually(h.C.T, Soon, fmt.Sprintf("host %d says %q", h.N, words), func(context.Context) error {
		data, err := os.ReadFile(h.Log)
		if err == nil && !strings.Contains(string(data[mark:]), words) {
			err = fmt.Errorf("it says:\n%s", Tail(h.Log, 5))
		}
		return err
	})
}
