package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/hostsfile"
	"etcdadm.io/internal/moving"
)

// seedFiles is the source that the external volume provider has.
const seedFiles = "seed files"

// seeds are where other daemons may be: named ones, and those that announced
// themselves in the backup store.
func (d *daemon) seeds(static *Static, seedDir string) (discovery.Seeds, error) {
	var sources []discovery.Source
	add := func(name string, s discovery.Seeds) {
		sources = append(sources, discovery.Source{Name: name, Seeds: s})
	}
	if static != nil {
		s, err := static.Seeds(d.cfg.GRPCPort)
		if err != nil {
			return nil, &Error{Problem: "--static-config", Err: err}
		}
		add("static configuration", s)
	}
	if seedDir != "" {
		add(seedFiles, discovery.Addresses{Path: seedDir, Port: d.cfg.GRPCPort})
	}
	var named []string
	for _, text := range d.cfg.Discovery {
		u, err := url.Parse(text)
		switch {
		case err == nil && u.Scheme == "file":
			add(text, discovery.Directory{Path: u.Path, DefaultPort: d.cfg.GRPCPort})
		case err == nil && u.Scheme == "dns":
			add(text, discovery.DNS{Names: []string{u.Host}, Port: d.cfg.GRPCPort})
		default:
			named = append(named, text)
		}
	}
	if len(named) > 0 {
		s, err := discovery.ParseStatic(named, d.cfg.GRPCPort)
		if err != nil {
			return nil, &Error{Problem: "--discovery", Err: err, Advice: "host:port, file:///directory or dns://name"}
		}
		add("--discovery", s)
	}
	notes := d.moves.follower.File.Notes()
	for _, p := range []*moving.Place{notes.Offer, notes.Place} { // the hosts may be there already
		if !p.AtHosts() {
			continue
		}
		s, err := discovery.ParseStatic(p.Seeds, d.cfg.GRPCPort)
		if err != nil { // the rest is good
			d.log.Warn("not every host that the record was offered to is found by its address", "err", err)
		}
		add("the move", s)
	}
	if dir, ok := strings.CutPrefix(d.cfg.RecordStore(), "file://"); ok {
		// A directory can be watched, so newcomers are seen at once.
		add("backup store", storeDirectory{discovery.Directory{Path: strings.TrimSuffix(dir, "/") + "/" + strings.TrimSuffix(discovery.StoreFolder, "/"), DefaultPort: d.cfg.GRPCPort}})
	} else if d.cfg.announces() {
		add("backup store", discovery.NewStore(d.store, d.cfg.GRPCPort))
	}
	return discovery.Merge(d.seedTrouble, sources...), nil
}

// storeDirectory is a store's folder of announcements. Until the first daemon
// announces itself it is not there, which is no trouble.
type storeDirectory struct{ discovery.Directory }

func (s storeDirectory) Seeds(ctx context.Context) ([]discovery.Seed, error) {
	seeds, err := s.Directory.Seeds(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return seeds, nil
	}
	return seeds, err
}

// seedTrouble tells of a source that a person has named. Those that are there
// by themselves come late at times, and the store's troubles are told elsewhere.
func (d *daemon) seedTrouble(source string, err error) {
	level := slog.LevelDebug
	if strings.HasPrefix(source, "file:") || strings.HasPrefix(source, "dns:") || source == seedFiles {
		level = slog.LevelWarn
	}
	if err != nil {
		d.log.Log(context.Background(), level, "a source of other daemons does not answer", "source", source, "err", err)
	} else {
		d.log.Log(context.Background(), level, "a source of other daemons answers again", "source", source)
	}
}

// place is where this host announces itself.
type place struct {
	name string
	at   discovery.Announcer
	said bool // that it failed
}

// announce puts this host where the others look.
func (d *daemon) announce(ctx context.Context) error {
	var places []place
	if d.cfg.announces() {
		places = append(places, place{name: "backup store", at: discovery.NewStore(d.store, d.cfg.GRPCPort)})
	}
	for _, text := range d.cfg.Discovery {
		if u, err := url.Parse(text); err == nil && u.Scheme == "file" {
			places = append(places, place{name: text, at: discovery.Directory{Path: u.Path}})
		}
	}
	return d.announceAt(ctx, places)
}

// announceAt goes from place to place. None holds another one up: one that does not end
// is left to itself, and no second announcement is begun there before it has.
func (d *daemon) announceAt(ctx context.Context, places []place) error {
	self := discovery.Seed{ID: string(d.id), Endpoint: d.cfg.Endpoint()}
	for i := range places {
		places[i].at = &discovery.Patient{Announcer: places[i].at}
	}
	t := time.NewTicker(d.cfg.pollEvery())
	defer t.Stop()
	replaced := false
	for {
		for i := range places {
			p := &places[i]
			callCtx, cancel := context.WithTimeout(ctx, announceTimeout)
			err := p.at.Announce(callCtx, self)
			cancel()
			if err == nil && !replaced {
				replaced = retractFormer(d, ctx, self)
			}
			if err != nil && !p.said && ctx.Err() == nil {
				d.log.Warn("could not tell other daemons where this one is; they find it by other ways if there are any", "place", p.name, "err", err)
				p.said = true
			} else if err == nil && p.said {
				d.log.Info("other daemons can be told again where this one is", "place", p.name)
				p.said = false
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// keepHostsFile keeps the names of all hosts in the hosts file, when there is
// a DNS suffix.
func (d *daemon) keepHostsFile(ctx context.Context) error {
	if d.cfg.DNSSuffix == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	file := hostsfile.File{Path: d.cfg.HostsFile, Cluster: d.cfg.ClusterName}
	var before string
	var kept []string
	t := time.NewTicker(hostsFileEvery)
	defer t.Stop()
	for {
		var err error
		kept, err = d.keepNames(ctx, file, kept)
		if err != nil && err.Error() != before && ctx.Err() == nil {
			d.log.Warn("could not keep the hosts file", "file", file.Path, "err", err)
			before = err.Error()
		} else if err == nil {
			before = ""
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// keepNames brings the file up to date once. kept are the names of hosts that were not
// heard which it left there, this time and the time before.
func (d *daemon) keepNames(ctx context.Context, file hostsfile.File, before []string) (kept []string, err error) {
	var stays func(string) bool // nobody is asked as long as nothing hangs on it
	if len(before) > 0 {
		stays = d.staysNamed(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, hostsFileTimeout)
	defer cancel()
	if kept, err = file.Merge(ctx, d.hostEntries(), stays); err != nil {
		return before, err
	}
	return kept, nil
}

// staysNamed tells which names of hosts that were not heard stay in the hosts file:
// etcd may have no other way to a member than its line, also while the daemon beside it
// is silent, or is the predecessor's, which this one never hears. So one goes only when
// its member is seen to be gone.
func (d *daemon) staysNamed(ctx context.Context) func(name string) bool {
	members, ok := d.host.Listed(ctx)
	if !ok {
		return nil
	}
	return func(name string) bool { return d.cfg.names(members, name) }
}

// names reports whether one of the members is a host of this name, or is reached by it.
func (c *Config) names(members []cluster.Member, name string) bool {
	return slices.ContainsFunc(members, func(m cluster.Member) bool {
		if m.Name != "" && c.HostName(cluster.HostID(m.Name)) == name {
			return true
		}
		return slices.ContainsFunc(append(slices.Clone(m.PeerURLs), m.ClientURLs...), func(raw string) bool {
			u, err := url.Parse(raw)
			return err == nil && u.Hostname() == name
		})
	})
}

// hostEntries are the names of those daemons that were heard under an address.
func (d *daemon) hostEntries() []hostsfile.Entry {
	var out []hostsfile.Entry
	for _, c := range d.contacts() {
		at := strings.LastIndex(c.Endpoint, ":")
		if at < 0 {
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(c.Endpoint[:at], "[]")); err == nil {
			out = append(out, hostsfile.Entry{Addr: a, Names: []string{d.cfg.HostName(c.Host)}})
		}
	}
	return out
}

// contacts are all daemons that were heard from, this one among them, sorted.
func (d *daemon) contacts() []cluster.Contact {
	out := []cluster.Contact{{Host: d.id, Endpoint: d.cfg.Endpoint()}}
	for _, p := range d.host.Peers() {
		if p.Address != "" && !slices.ContainsFunc(out, func(c cluster.Contact) bool { return c.Host == p.Host }) {
			out = append(out, cluster.Contact{Host: p.Host, Endpoint: p.Address})
		}
	}
	slices.SortFunc(out, func(a, b cluster.Contact) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return out
}
