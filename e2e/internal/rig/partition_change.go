package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// OneCluster complains when the members of the hosts are of more than one
// founding, ever: a data directory is named after its token, and one that was
// set aside begins with it.
func (c *Cluster) OneCluster() {
	c.T.Helper()
	var tokens, aside []string
	for _, h := range c.Hosts {
		tokens = append(tokens, c.entries(filepath.Join(h.Dir, "data"))...)
		aside = append(aside, c.entries(filepath.Join(h.Dir, "data-trashcan"))...)
	}
	slices.Sort(tokens)
	if tokens = slices.Compact(tokens); len(tokens) != 1 {
		c.T.Fatalf("the hosts hold the data of %d clusters: %v", len(tokens), tokens)
	}
	for _, name := range aside {
		if !strings.HasPrefix(name, tokens[0]) {
			c.T.Errorf("%s was set aside, which is not of cluster %s", name, tokens[0])
		}
	}
}

// entries are the names in a directory, which need not be there.
func (c *Cluster) entries(dir string) []string {
	c.T.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.T.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Replaced waits until a member is no more.
func (c *Cluster) Replaced(id uint64) {
	c.T.Helper()
	Eventually(c.T, Soon, "the old member is removed", func(context.Context) error {
		if slices.Contains(c.Listed(), id) {
			return fmt.Errorf("member %x is still there", id)
		}
		return nil
	})
}
