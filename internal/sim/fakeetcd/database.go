package fakeetcd

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// defragTime is how long a member takes to write its database anew, for each byte
// in use and at least.
const (
	defragTime    = 200 * time.Millisecond
	defragPerByte = 50 * time.Nanosecond
)

// past is one revision of one key that etcd keeps.
type past struct {
	key   string
	value string
	rev   int64
	cost  int64
}

// compact forgets what was before a revision, but for what keys had at it.
func (s *state) compact(revision int64) error {
	switch {
	case revision <= s.compacted:
		return etcd.ErrCompacted
	case revision > s.rev:
		return etcd.ErrFutureRevision
	}
	s.compacted = revision
	newest := make(map[string]int64)
	for _, p := range s.history {
		if p.rev <= revision {
			newest[p.key] = p.rev
		}
	}
	s.history = slices.DeleteFunc(s.history, func(p past) bool {
		_, there := s.kv[p.key]
		gone := p.rev <= revision && (newest[p.key] != p.rev || !there)
		if gone {
			s.size -= p.cost
		}
		return gone
	})
	return nil
}

// grow takes room in the member's file for what is in use. Nothing of a file is
// given back but by writing it anew; a log that is applied again takes nothing.
func (p *Proc) grow(index uint64) {
	if index > p.data.filed {
		p.data.filed, p.data.file = index, max(p.data.file, p.st.size)
	}
}

// overQuota raises the alarm for a member whose own database is beyond its quota
// when it applies a write. Source: quotaApplierV3 of etcdserver/apply.
func (p *Proc) overQuota(o op) {
	if o.Kind == opPut && p.serving && p.data.file > p.quota && !p.st.alarmed("NOSPACE") {
		p.later(0, func() { // not amid a step of raft
			p.proposeOwn(op{Kind: opAlarm, Alarm: "NOSPACE", Member: p.member})
		})
	}
}

// Rot damages the data of a member, which serves on. Its keys give another hash.
func (n *Net) Rot(d *Data) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.rotten = true
}

// Misread has the next hash of the keys be wrong that the process on a host gives,
// as after a bit that flipped in memory.
func (n *Net) Misread(h cluster.HostID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.running(h); p != nil {
		p.misread = true
	}
}

// HashKV implements host.Member.
func (m Member) HashKV(ctx context.Context, revision int64) (etcd.KVHash, error) {
	v, err := m.ask(ctx, "hash keys", true, func(p *Proc, r *request) {
		switch {
		case revision != 0 && revision < p.st.compacted:
			r.finish(nil, etcd.ErrCompacted)
			return
		case revision > p.st.rev:
			r.finish(nil, etcd.ErrFutureRevision)
			return
		}
		h := fnv.New32a()
		for _, x := range p.st.history {
			if x.rev <= revision || revision == 0 {
				_, _ = h.Write([]byte(x.key + "\x00" + x.value + "\x00")) // never fails
			}
		}
		k := etcd.KVHash{Cluster: p.cluster, Member: p.member, Hash: h.Sum32(), Revision: revision, Compacted: p.st.compacted, Current: p.st.rev}
		if p.data.rotten || p.misread {
			k.Hash++
		}
		p.misread = false
		r.finish(k, nil)
	})
	if err != nil {
		return etcd.KVHash{}, err
	}
	return v.(etcd.KVHash), nil
}

// Defragment implements host.Member. The member serves nothing until it has ended.
func (m Member) Defragment(ctx context.Context, _ time.Duration) error {
	_, err := m.change(ctx, "defragment", func(p *Proc, r *request) {
		p.serving, p.writesAnew = false, true
		p.net.trace(p.host, "defragments")
		p.later(defragTime+time.Duration(p.st.size)*defragPerByte, func() {
			p.data.file, p.serving, p.writesAnew = p.st.size, true, false
			r.finish(nil, nil)
			p.admit()
		})
	})
	return err
}

// Compact implements host.Member.
func (m Member) Compact(ctx context.Context, revision int64) error {
	_, err := m.change(ctx, "compact", func(p *Proc, r *request) { p.submit(r, op{Kind: opCompact, Revision: revision}) })
	if errors.Is(err, etcd.ErrCompacted) {
		return nil
	}
	return err
}

// Disarm implements host.Member.
func (m Member) Disarm(ctx context.Context, alarm string, member cluster.MemberID) error {
	_, err := m.change(ctx, "disarm "+alarm, func(p *Proc, r *request) {
		p.submit(r, op{Kind: opDisarm, Alarm: alarm, Member: member})
	})
	return err
}
