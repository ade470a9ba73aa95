package moving

import (
	"context"
	"encoding/json"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// A host that joined where the record was moved to is of that place as those that followed, and names it in its calls. It reads the name
// in the store, and keeps it: the store may be silent at a later start, and those that followed take no orders from a store without a name.

// Named is the name of a store, as this host read it there.
type Named struct {
	URL  string `json:"url"` // without parameters
	Name string `json:"name"`
}

// ReadName reads the name of the store, on a host that did not follow a record there. That it has none is no error.
func (f *Follower) ReadName(ctx context.Context, store blob.Store) error {
	if f == nil || f.Home == nil || f.File.Notes().Place != nil {
		return nil
	}
	p, err := which(ctx, store)
	if err != nil || p == nil || p.Name == "" {
		return err
	}
	f.Home.name.Store(&p.Name)
	return f.File.named(Named{URL: f.Home.URL, Name: p.Name})
}

// keepName looks at the name of the store. The leading host, if it followed there, writes it again where it is gone, as after a store
// that was emptied was written anew from what hosts remember.
func (f *Follower) keepName(ctx context.Context, store blob.Store) error {
	at := f.File.Notes().Place
	switch {
	case at == nil:
		return f.ReadName(ctx, store)
	case f.Home.Leads() != nil:
		return nil
	}
	p, err := which(ctx, store)
	if err != nil || p != nil {
		return err
	}
	in, _, _, err := control.New(store, f.Cluster).ReadIntent(ctx)
	if err != nil || in == nil {
		return err
	}
	if err := f.ours(ctx, store, *at); err != nil {
		return err
	}
	data, err := json.Marshal(place{Cluster: f.Cluster, Name: at.Name, From: at.From})
	if err != nil {
		return err
	}
	_, err = blob.PutBytes(ctx, store, keyPlace, data, blob.IfAbsent)
	return err
}

// Name is the place that this host is at, "" for none: the one that it followed to, or what its store says that it is. It waits for nothing.
func (f *Follower) Name() string {
	if f == nil || f.Home == nil {
		return ""
	}
	if name := f.Home.name.Load(); name != nil {
		return *name
	}
	return ""
}

// RecallName takes in the name that the file has, before anything is called.
func (f *Follower) RecallName() {
	switch n := f.File.Notes(); {
	case n.Place != nil:
		f.Home.name.Store(&n.Place.Name)
	case n.Named != nil && n.Named.URL == f.Home.URL:
		f.Home.name.Store(&n.Named.Name)
	}
}

// named keeps the name of a store.
func (f *File) named(s Named) error {
	return f.change(func(n *Notes) error {
		if n.Named != nil && *n.Named == s {
			return errUnchanged
		}
		n.Named = &s
		return nil
	})
}
