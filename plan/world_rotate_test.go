package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// Authorities in the world: a host has them once the command "authorities" gave it some, and follows the record that
// it keeps, as the daemon does, unless it is slow ("slow-authorities"). Etcd trusts what lies on the host's disk when
// it starts.

var worldAuthorities = []string{"etcd-manager-ca", "etcd-peers-ca"}

// giveAuthorities gives a host the cluster's first authorities.
func (h *worldHost) giveAuthorities() {
	h.Authorities = &cluster.HostAuthorities{Daemons: true, Etcd: true}
	for _, name := range worldAuthorities {
		sum := name + "-1"
		h.Authorities.All = append(h.Authorities.All, cluster.HostAuthority{Name: name, Trusts: []string{sum}, Signs: sum, Leaves: []string{sum}})
	}
	h.readAuthorities()
}

// readAuthorities is what etcd does when it starts.
func (h *worldHost) readAuthorities() {
	if h.Authorities == nil {
		return
	}
	h.Process.Trusts = nil
	for _, a := range h.Authorities.All {
		if a.Name != "etcd-manager-ca" {
			h.Process.Trusts = append(h.Process.Trusts, a.Trusts...)
		}
	}
}

// changeBundles is what whoever renews the files of authorities does: no record tells of it.
func (h *worldHost) changeBundles(add, drop, signs string) {
	a := *h.Authorities
	a.All = slices.Clone(a.All)
	for i, x := range a.All {
		x.Trusts = slices.DeleteFunc(slices.Clone(x.Trusts), func(t string) bool { return t == x.Name+"-"+drop })
		if add != "" {
			x.Trusts = append(x.Trusts, x.Name+"-"+add)
		}
		slices.Sort(x.Trusts)
		if signs != "" {
			x.Leaves = []string{x.Name + "-" + signs}
		}
		a.All[i] = x
	}
	h.Authorities = &a
}

// follow makes the host's authorities what the record that it keeps asks.
func (h *worldHost) follow() {
	if h.Authorities == nil || h.Intent == nil || h.Intent.Rotation == nil || h.slowCA {
		return
	}
	r := h.Intent.Rotation
	a := *h.Authorities
	a.Rotation, a.Phase, a.Undo, a.All = r.ID, r.Phase, r.Undo, slices.Clone(a.All)
	for _, c := range r.Authorities {
		i := slices.IndexFunc(a.All, func(x cluster.HostAuthority) bool { return x.Name == c.Name })
		x := a.All[i]
		x.Trusts = slices.Clone(x.Trusts)
		for _, t := range r.Trusts(c) {
			x.Trusts = append(x.Trusts, t.SHA256)
		}
		x.Signs = r.Signs(c).SHA256
		if !h.staleCA {
			x.Leaves = []string{x.Signs}
		}
		if !h.keylessCA {
			x.Keys = []string{c.Next.SHA256}
		}
		if r.Drops() {
			x.Trusts = slices.DeleteFunc(x.Trusts, func(t string) bool { return t == r.Leaves(c).SHA256 })
		}
		slices.Sort(x.Trusts)
		x.Trusts = slices.Compact(x.Trusts)
		a.All[i] = x
	}
	h.Authorities = &a
}

// mintRotation is what the executor makes of a rotation that begins.
func (w *world) mintRotation(in *cluster.Intent) {
	if in.Rotation == nil || in.Rotation.ID != "" {
		return
	}
	w.minted++
	r := *in.Rotation
	r.ID, r.Authorities = fmt.Sprintf("rotation-%d", w.minted), slices.Clone(r.Authorities)
	for i := range r.Authorities {
		r.Authorities[i].Next.SHA256 = fmt.Sprintf("%s-%d", r.Authorities[i].Name, w.minted)
	}
	in.Rotation = &r
}

// mistrust names a host that shows a leaf which another host or its member does not trust; empty: none does. Hosts
// that are off count: they come back as they are.
func (w *world) mistrust() string {
	for _, h := range w.hosts {
		if h.Authorities == nil {
			continue
		}
		for _, a := range h.Authorities.All {
			for _, o := range w.hosts {
				if o.Authorities == nil {
					continue
				}
				x, _ := o.Authorities.Of(a.Name)
				for _, leaf := range a.Leaves {
					if !slices.Contains(x.Trusts, leaf) {
						return fmt.Sprintf("host %s shows a certificate of %s, which host %s does not trust", h.Host, leaf, o.Host)
					}
					if a.Name != "etcd-manager-ca" && o.runs() && o.Process.Trusts != nil && !slices.Contains(o.Process.Trusts, leaf) {
						return fmt.Sprintf("host %s shows a certificate of %s, which the member of host %s does not trust", h.Host, leaf, o.Host)
					}
				}
			}
		}
	}
	return ""
}

// showAuthorities is what each host trusts, and who signed its leaves.
func (w *world) showAuthorities() string {
	var b strings.Builder
	short := func(all []string) string {
		var out []string
		for _, s := range all {
			out = append(out, s[strings.LastIndex(s, "-")+1:])
		}
		return strings.Join(out, "+")
	}
	for _, h := range w.hosts {
		if a, has := h.Authorities.Of("etcd-peers-ca"); has {
			fmt.Fprintf(&b, "%s: trusts %s, leaves of %s, etcd trusts %s\n", h.Host, short(a.Trusts), short(a.Leaves), short(h.Process.Trusts))
		}
	}
	return b.String()
}
