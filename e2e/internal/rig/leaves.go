package rig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/internal/pki"
)

// PutLeaves makes a directory of a host's leaves, with no authority's key in it, what it has from now on, as whoever renews it does:
// all at once. More are trusted beside the authorities that sign.
func (h *Host) PutLeaves(dir string, id string, more ...*pki.Authorities) {
	h.C.T.Helper()
	cas, err := pki.Load(h.C.PKIDir(), time.Now())
	if err != nil {
		h.C.T.Fatal(err)
	}
	made, err := os.MkdirTemp(h.C.Dir, "leaves-")
	if err != nil {
		h.C.T.Fatal(err)
	}
	life := pki.Lifetime{Duration: 24 * time.Hour, MinTimeLeft: time.Minute}
	names := []string{h.Address, "127.0.0.1"}
	daemon, err1 := pki.HostRequest(pki.Identity{Cluster: h.C.Name, Role: pki.RoleHost, ID: id}, names, life)
	operator, err2 := pki.CallerRequest(pki.Identity{Cluster: h.C.Name, Role: pki.RoleOperator, ID: "operator"}, life)
	peer, err3 := pki.PeerRequest(id, nil, names, life)
	server, err4 := pki.ServerRequest(id, nil, names, life)
	client, err5 := pki.ClientRequest("root", life)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		h.C.T.Fatal(err)
	}
	for _, x := range []struct {
		name string
		of   *pki.Authority
		as   pki.Request
	}{{"daemon", cas.Manager, daemon}, {"operator", cas.Manager, operator}, {"peer", cas.Peers, peer}, {"server", cas.Clients, server}, {"client", cas.Clients, client}} {
		if _, err := pki.Ensure(made, pki.Names{CA: x.of.Name() + ".crt", Cert: x.name + ".crt", Key: x.name + ".key"}, x.of, x.as, time.Now()); err != nil {
			h.C.T.Fatal(err)
		}
	}
	for i, a := range cas.All() {
		bundle := a.BundlePEM()
		for _, m := range more {
			bundle = append(bundle, m.All()[i].BundlePEM()...)
		}
		Put(h.C.T, filepath.Join(made, a.Name()+".crt"), bundle, 0o600)
	}
	next := made + ".link"
	if err := errors.Join(os.Symlink(made, next), os.Rename(next, dir)); err != nil {
		h.C.T.Fatal(err)
	}
}

// DaemonBelow is the daemon that the first process of a host's pod runs.
func (h *Host) DaemonBelow() int {
	h.C.T.Helper()
	pids := find(func(args []string) bool {
		return slices.Contains(args, "auto") && slices.Contains(args, "--data-dir="+h.Dir)
	})
	if len(pids) != 1 {
		h.C.T.Fatalf("the pod of host %d runs the daemons %v", h.N, pids)
	}
	return pids[0]
}
