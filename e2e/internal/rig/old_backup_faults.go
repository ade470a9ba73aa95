package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/control"
)

// atWork waits until a daemon has something below one of these places of its state, and
// gives its host; nil: none had until the end, or until it is over.
func (c *Cluster) atWork(within time.Duration, pattern string, over func() bool) *Host {
	end := time.Now().Add(within)
	for n := 1; time.Now().Before(end); n++ {
		for _, h := range c.Hosts {
			if found, _ := filepath.Glob(filepath.Join(h.Dir, "etcdadm", pattern)); len(found) > 0 && h.Running() {
				return h
			}
		}
		if n%100 == 0 && over() { // which costs more than a glance
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// KilledAmid kills the daemon that is at work a random time after it was seen to be, and
// starts it again. What is over needs nobody at work any more.
func (c *Cluster) KilledAmid(random *rand.Rand, pattern string, most time.Duration, over func() bool) {
	c.T.Helper()
	h := c.atWork(Soon, pattern, over)
	if h == nil {
		if !over() {
			c.T.Fatalf("no daemon has %s", pattern)
		}
		c.T.Logf("nobody is killed: it is over, and no daemon has %s", pattern)
		return
	}
	pause := time.Duration(random.Int64N(int64(most)))
	time.Sleep(pause)
	left, _ := filepath.Glob(filepath.Join(h.Dir, "etcdadm", pattern))
	h.Kill()
	c.T.Logf("the daemon of host %d is killed after %s; it was at it: %t", h.N, pause, len(left) > 0)
	h.Start()
}

// Of are the backups that were taken for a reason.
func (c *Cluster) Of(reason backup.Reason) int {
	c.T.Helper()
	return len(c.Taken(reason))
}

// OnlyFile is the file of a backup that holds the data.
func (c *Cluster) OnlyFile(name string) string {
	c.T.Helper()
	files, err := filepath.Glob(c.File(name, "etcd.backup*"))
	if err != nil || len(files) != 1 {
		c.T.Fatalf("backup %s holds %v: %v", name, files, err)
	}
	return filepath.Base(files[0])
}

// EndOf is how a command ended; an error: it has not, or nobody can tell.
func EndOf(ctx context.Context, folder *control.Folder, name string) (control.Ended, error) {
	all, err := folder.EndedCommands(ctx)
	if err != nil {
		return control.Ended{}, err
	}
	i := slices.IndexFunc(all, func(e control.Ended) bool { return e.Name == name })
	if i < 0 {
		return control.Ended{}, errors.New("it has not ended")
	}
	return all[i], nil
}

func (c *Cluster) EndedWithin(within time.Duration, name, how string) {
	c.T.Helper()
	folder := c.Folder()
	Eventually(c.T, within, fmt.Sprintf("command %s is %s", name, how), func(ctx context.Context) error {
		end, err := EndOf(ctx, folder, name)
		if err == nil && end.Result != how {
			err = fmt.Errorf("it ended as %+v", end)
		}
		return err
	})
}
