package sim

import (
	"context"
	"io"
	"strings"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

const (
	// deskTries is how long a person tries one daemon, and deskWaits how long they wait before the next.
	deskTries, deskWaits = 10 * time.Second, 2 * time.Second
	// deskWithin bounds the time from the end of all faults until what a person wants is written.
	deskWithin = 3 * time.Minute
)

// atDesk has a person write into the control folder. Where the hosts keep the record that is at one daemon after the other, until
// one has written it, in the order in which it was wanted, and nobody waits for it.
func (w *World) atDesk(what string, write func(context.Context, *control.Folder) error) {
	if !w.hostsKeep {
		if err := write(w.ctx, control.New(w.store, clusterName)); err != nil {
			w.violate("%s: %v", what, err)
		}
		return
	}
	w.mu.Lock()
	w.desk = append(w.desk, deskWork{what, write})
	first := len(w.desk) == 1
	w.mu.Unlock()
	if first {
		w.loops.Go(w.sitAtDesk)
	}
}

type deskWork struct {
	what  string
	write func(context.Context, *control.Folder) error
}

func (w *World) sitAtDesk() {
	for n := 0; ; n++ {
		w.mu.Lock()
		if len(w.desk) == 0 {
			w.mu.Unlock()
			return
		}
		next := w.desk[0]
		w.mu.Unlock()
		all := w.hosts()
		d := all[n%len(all)].daemon.Load()
		if d != nil && d.lives() {
			ctx, cancel := context.WithTimeout(d.ctx, deskTries)
			err := next.write(ctx, control.New(atDesk{keptView{d}}, clusterName).Known())
			cancel()
			if err == nil {
				w.mu.Lock()
				w.desk = w.desk[1:]
				w.mu.Unlock()
				continue
			}
			w.tracef(d.id, "a person cannot %s here: %v", next.what, err)
		}
		if !w.sleep(w.ctx, deskWaits) {
			return
		}
	}
}

// deskDone reports whether all that persons want is written.
func (w *World) deskDone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.desk) == 0
}

// atDesk is the store as a person reaches it through a daemon.
type atDesk struct{ keptView }

// Put implements blob.Store.
func (s atDesk) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (tag blob.ETag, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	s.d.w.register.sends(key, data, &daemon{w: s.d.w, m: s.d.m, id: "person", person: true})
	err = s.call(memory.Put, key, func() error {
		tag, err = s.d.keeping.Store().Put(ctx, key, strings.NewReader(string(data)), cond)
		return err
	})
	return tag, err
}
