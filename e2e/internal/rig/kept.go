package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/register"
)

// FoundRecord makes the record of a cluster without a shared store on this host, as init does, with a spec. The host gets a name
// of its own, and so do those that look for it.
func (h *Host) FoundRecord(members int) {
	h.C.T.Helper()
	h.Named()
	err := kept.Found(h.C.T.Context(), h.Dir, h.name(), host.Mint, func(ctx context.Context, s blob.Store) error {
		_, _, err := control.New(s, h.C.Name).AmendSpec(ctx, control.Amend{MemberCount: members, EtcdVersion: cluster.MustVersion(h.C.Options.Version)})
		return err
	})
	if err != nil {
		h.C.T.Fatal(err)
	}
}

// Named gives the host a name that is known before it starts, and the hosts before it to look at.
func (h *Host) Named() {
	h.Flags = append(h.Flags, "--host-id="+string(h.name()))
	for _, o := range h.C.Hosts {
		if o != h {
			h.Flags = append(h.Flags, "--discovery", o.Endpoint())
		}
	}
}

func (h *Host) name() cluster.HostID { return cluster.HostID(fmt.Sprintf("host-%d", h.N)) }

// KeptBy waits until just these hosts keep the record, by what the first of them accepted last.
func (c *Cluster) KeptBy(within time.Duration, hosts ...int) {
	c.T.Helper()
	var want []cluster.HostID
	for _, n := range hosts {
		want = append(want, c.Host(n).name())
	}
	Eventually(c.T, within, fmt.Sprintf("the record kept by %v", want), func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(c.Host(hosts[0]).Dir, "etcdadm", keeper.FileName))
		if err != nil {
			return err
		}
		var file struct{ Keeper register.Keeper }
		if err := json.Unmarshal(data, &file); err != nil || file.Keeper.Accepted.Doc == nil {
			return fmt.Errorf("nothing was accepted yet: %w", err)
		}
		var are []cluster.HostID
		for _, s := range file.Keeper.Accepted.Doc.Keepers {
			are = append(are, s.Host)
		}
		if !slices.Equal(are, want) {
			return fmt.Errorf("it is kept by %v", are)
		}
		return nil
	})
}
