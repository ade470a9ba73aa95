package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	Eventually(c.T, within, fmt.Sprintf("the record kept by %v", hosts), func(context.Context) error {
		var want []register.Seat // a host that lost its disk is another keeper
		var known register.Keeper
		for i, n := range hosts {
			data, err := os.ReadFile(filepath.Join(c.Host(n).Dir, "etcdadm", keeper.FileName))
			if err != nil {
				return err
			}
			var file struct{ Keeper register.Keeper }
			if err := json.Unmarshal(data, &file); err != nil {
				return err
			}
			if want = append(want, file.Keeper.Seat); i == 0 {
				known = file.Keeper
			}
		}
		slices.SortFunc(want, func(a, b register.Seat) int { return strings.Compare(string(a.Host), string(b.Host)) })
		if known.Accepted.Doc == nil {
			return errors.New("nothing was accepted yet")
		}
		if are := known.Accepted.Doc.Keepers; !slices.Equal(are, want) {
			return fmt.Errorf("it is kept by %v, and the hosts are %v", are, want)
		}
		return nil
	})
}
