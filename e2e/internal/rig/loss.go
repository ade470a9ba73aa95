package rig

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Harm does something to a host that it has to survive.
func (c *Cluster) Harm(random *rand.Rand, h *Host) {
	if !h.Running() {
		return
	}
	pids := h.EtcdPIDs()
	does := []string{"etcd killed", "daemon killed", "crashed", "interrupted", "daemon paused", "etcd paused"}[random.IntN(6)]
	c.T.Logf("%s: host %d: %s", time.Now().Format(time.TimeOnly), h.N, does)
	paused := func(pids ...int) {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	switch does {
	case "etcd killed":
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	case "daemon killed":
		h.Kill()
	case "crashed":
		h.Crash()
	case "interrupted":
		// One that was started a moment ago may not listen to signals yet, and
		// ends by this one; so nothing is asked of how it ends.
		h.Signal(syscall.SIGINT)
		h.Exit(Soon)
	case "daemon paused":
		paused(h.Cmd.Process.Pid)
	case "etcd paused":
		paused(slices.Clone(pids)...)
	}
}
