package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/token"
)

// What a cluster gives to a host that joins, and what of it is kept.

// newSettings are those of a machine that is no host yet. Nothing is written.
func (m *Machine) newSettings(ctx context.Context, o Join, reply peer.JoinReply) (Settings, error) {
	s, err := m.settingsOf(o, reply)
	if err != nil {
		return nil, err
	}
	if o.Existing != nil {
		if err := o.Existing.Among(ctx, append(reply.Endpoints(), o.Endpoint)); err != nil {
			return nil, err
		}
	}
	if _, err := s.text(m.speak().Reload); err != nil { // before anything is written
		return nil, err
	}
	return s, sameStore(ctx, s, o.Token.ID)
}

// sameStore makes sure that this machine sees the store of the cluster under its URL. A directory that is not mounted
// here would be made anew by the agent, and be another store.
func sameStore(ctx context.Context, s Settings, id string) error {
	const again = "; then run the same command again, which uses the token once"
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Environment(); err != nil {
		return err
	}
	if _, ok := kept.DataDir(s.Store()); ok {
		return nil // it is what the hosts keep
	}
	store, err := open.Open(ctx, s.Store(), open.Options{ReadOnly: true})
	if errors.Is(err, file.ErrNoDirectory) {
		return &Error{Problem: "this machine does not have the shared directory that is the cluster's store", Err: err, Advice: "mount it here as on the other hosts" + again}
	}
	if err != nil {
		return &Error{Problem: "this machine cannot open the cluster's store", Err: err, Advice: storeRemedy(err) + again}
	}
	all, err := control.New(store, s.Cluster()).Tokens().All(ctx)
	switch {
	case err != nil:
		return &Error{Problem: "this machine cannot read the cluster's store", Err: err, Advice: storeRemedy(err) + again}
	case !slices.ContainsFunc(all, func(r token.Record) bool { return r.ID == id }):
		return &Error{Problem: "this machine sees another store under the URL of the cluster's: the join token is not in it", Err: ErrOther, Advice: "mount the shared directory here as on the other hosts" + again}
	}
	return nil
}

// settingsOf are the settings of this host in that cluster.
func (m *Machine) settingsOf(o Join, reply peer.JoinReply) (Settings, error) {
	s := Settings{}
	for name, value := range reply.Settings {
		if slices.Contains(OwnFlags, name) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" {
			return nil, &Error{Problem: fmt.Sprintf("the cluster gave a setting %q, which is each host's own", name), Advice: "install the same release of etcdadm on both hosts"}
		}
		s.setFlag(name, value)
	}
	for _, own := range []Settings{m.hostSettings(o.Address, o.HostID, o.DataDir), o.existing(), o.More} {
		for name, value := range own {
			s[name] = value
		}
	}
	if _, ok := kept.DataDir(s.Store()); ok { // each host has its own part
		s.setFlag("backup-store", kept.URL(s.Flag("data-dir")))
	}
	if reply.Settings["etcd-address"] == "__address__" {
		s.setFlag("etcd-address", o.Address)
	}
	if _, _, err := net.SplitHostPort(o.Endpoint); err == nil {
		daemons := reply.Endpoints()
		if !slices.Contains(daemons, o.Endpoint) {
			daemons = append(daemons, o.Endpoint)
		}
		own := s.Endpoint()
		s.setFlag("discovery", strings.Join(slices.DeleteFunc(daemons, func(d string) bool { return d == own }), ","))
	}
	for name, value := range reply.Environment {
		if envfile.IsFlag(name) || !open.Variable(name) {
			return nil, &Error{Problem: fmt.Sprintf("the cluster gave a variable %q, which is not for reaching its store", name), Advice: "install the same release of etcdadm on both hosts"}
		}
		s[name] = value
	}
	m.forPod(s)
	if s.Cluster() != reply.Cluster || s.Store() == "" {
		return nil, &Error{Problem: "the cluster gave no settings that make sense", Advice: "install the same release of etcdadm on both hosts"}
	}
	return s, nil
}

// keepAuthorities writes the six files, or the three without keys. Those that are there have to be the same; the
// certificate that others are known by is written last.
func (m *Machine) keepAuthorities(dir string, files map[string][]byte, caHash string) error {
	names, err := given(files)
	if err != nil {
		return err
	}
	slices.Reverse(names)
	slices.SortStableFunc(names, func(a, b string) int { // keys first
		return strings.Compare(filepath.Ext(b), filepath.Ext(a))
	})
	if err := m.noteAuthorities(); err != nil {
		return err
	}
	if err := durable.MakeDir(dir, modeData); err != nil {
		return &Error{Problem: "make " + dir, Err: err}
	}
	for _, name := range names {
		data, ok := files[name]
		if !ok {
			return &Error{Problem: "the cluster did not give " + name, Advice: "install the same release of etcdadm on both hosts"}
		}
		mode := fs.FileMode(modePublic)
		if strings.HasSuffix(name, ".key") {
			mode = modeSecret
		}
		path := filepath.Join(dir, name)
		err := durable.Create(path, data, mode)
		if errors.Is(err, fs.ErrExist) {
			had, rerr := regular.Read(path, regular.SmallSize)
			if rerr == nil && bytes.Equal(had, data) {
				continue
			}
			return &Error{Problem: path + " exists, and is another one than the cluster's", Err: ErrOther, Advice: "move " + dir + " away, if no etcd of this machine needs it, and run the command again"}
		}
		if err != nil {
			return &Error{Problem: "write " + path, Err: err}
		}
	}
	all, err := pki.Load(dir, time.Now())
	if err != nil {
		return err
	}
	if all.Manager.Hash() != caHash {
		// A bundle with an authority that is on its way out: the joiner saw the one that signed the other side.
		m.say("the authority that signs now has the hash %s", all.Manager.Hash())
	}
	return nil
}
