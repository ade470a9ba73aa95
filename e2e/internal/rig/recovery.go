package rig

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// RestartAlone starts plain etcd again, if it has ended.
func (h *Host) RestartAlone() {
	h.C.T.Helper()
	if len(h.EtcdPIDs()) == 0 { // killed a moment ago: its end is on its way
		h.reap()
	}
	if !h.Running() {
		h.Start()
	}
}

// lookFor bounds one look at a member, so that one that came up meanwhile is not
// waited for by a connection that was refused before.
const lookFor = time.Second

// Votes asks a host's member for so many voters, and for a linearizable read.
func (h *Host) Votes(ctx context.Context, voters int) error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	client, err := h.C.Dial(h.ClientURL())
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	if len(list.Members) != voters || slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.IsLearner }) {
		return fmt.Errorf("there are %v", list.Members)
	}
	_, err = client.Get(ctx, "health")
	return err
}

// etcdAlone is the program of a host without a daemon.
func (h *Host) etcdAlone() *exec.Cmd {
	cmd := exec.Command(h.Alone[0], h.Alone[1:]...)
	cmd.Dir = filepath.Dir(h.Dir)
	return cmd
}
