package manager

import (
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

// A host's disk may be used by two daemons at once: a volume that is attached twice, a copy of a machine. One that begins
// is told of the other one by whoever hears both, and waits (docs/adr/037-two-daemons-with-one-disk.md).

const (
	// vanishedFor is how long a daemon that fell silent without a word counts as there, beside one that begins elsewhere: its
	// first process starts it again within 15 s, and its etcd goes on meanwhile.
	vanishedFor = 20 * time.Second
	// provesFor is how long a daemon counts as there that is heard and whose epoch stands still: it is written every 10 s,
	// and who cannot write, as on a volume that was taken away, has an etcd that acknowledges nothing.
	provesFor = 40 * time.Second
	// doublesMost bounds the daemons that are remembered of one host.
	doublesMost = 4
	// reportFor is how long what another daemon told of a double counts: pings come every 2 s, or 5 s apart.
	reportFor = 10 * time.Second
)

// double is a daemon that spoke for a host and claimed its disk.
type double struct {
	place, endpoint string
	heard           time.Time
	leaves          bool // its last word was that it ends
	epoch           uint64
	proved          time.Time // when its epoch was another one last
}

// is tells whether it is the daemon that sent a ping, or one in whose place that one is: it has the lock, or the port of the
// same machine. One of an earlier release is known by its endpoint.
func (s double) is(p cluster.Ping) bool {
	was, _, _ := strings.Cut(s.place, "/")
	now, _, _ := strings.Cut(p.Place, "/")
	return s.place != "" && s.place == p.Place || s.endpoint == p.Endpoint && (was == "" || now == "" || was == now)
}

func (s double) lives(now time.Time) bool {
	silent := vanishedFor
	if s.leaves {
		silent = election.PeerTimeout
	}
	return now.Sub(s.heard) < silent && now.Sub(s.proved) < provesFor
}

// doubles are the daemons that spoke for each host, and what others told of a double of this one. Use newDoubles.
type doubles struct {
	mu      sync.Mutex                  // guards what follows
	of      map[cluster.HostID][]double // the last one heard first
	reports map[string]report           // by the endpoint that was asked
}

// report is what another daemon told of a double of this host.
type report struct {
	of *cluster.Elsewhere
	at time.Time
}

func newDoubles() *doubles {
	return &doubles{of: map[cluster.HostID][]double{}, reports: map[string]report{}}
}

// hear takes in a ping, and says whether its sender speaks for its host: one that only asks does not, while another one
// is there.
func (d *doubles) hear(p cluster.Ping, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Asks {
		return d.besideLocked(p, now) == nil
	}
	s, kept := double{place: p.Place, endpoint: p.Endpoint, heard: now, leaves: p.Leaving, epoch: p.Epoch, proved: now}, []double(nil)
	for _, o := range d.of[p.Host] {
		switch {
		case !o.is(p):
			kept = append(kept, o)
		case o.epoch == p.Epoch:
			s.proved = o.proved
		}
	}
	d.of[p.Host] = append([]double{s}, kept[:min(len(kept), doublesMost-1)]...)
	return true
}

// beside is another daemon than the sender of a ping that is there under its host ID; nil: none.
func (d *doubles) beside(p cluster.Ping, now time.Time) *cluster.Elsewhere {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.besideLocked(p, now)
}

func (d *doubles) besideLocked(p cluster.Ping, now time.Time) *cluster.Elsewhere {
	for _, s := range d.of[p.Host] {
		if !s.is(p) && s.lives(now) {
			return &cluster.Elsewhere{Endpoint: s.endpoint, Ago: now.Sub(s.heard)}
		}
	}
	return nil
}

// told takes in what the daemon at an endpoint answered of a double of this host.
func (d *doubles) told(endpoint string, of *cluster.Elsewhere, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reports[endpoint] = (report{of, now}); of == nil {
		delete(d.reports, endpoint)
	}
}

// elsewhere is another daemon under this host's ID, by the newest word of those that were asked; nil: nobody hears one.
func (d *doubles) elsewhere(now time.Time) (last *cluster.Elsewhere) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.reports {
		if now.Sub(r.at) >= reportFor {
			continue
		}
		e := *r.of
		if e.Ago += now.Sub(r.at); last == nil || e.Ago < last.Ago {
			last = &e
		}
	}
	return last
}
