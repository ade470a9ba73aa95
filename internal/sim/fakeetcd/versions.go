package fakeetcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
)

// What etcd knows of versions. Source: etcdserver/version of 3.6 and 3.7: the
// leader's monitor settles the cluster version and ends downgrades; every member's
// own brings its data to the format of the cluster version.

// How etcd refuses a downgrade, and to take back what is not there.
var (
	ErrDowngrade   = errors.New("etcdserver: invalid downgrade target version")
	ErrNoDowngrade = errors.New("etcdserver: no inflight downgrade job")
)

// settleVersion raises the cluster version to the lowest release of all
// members, once all of them are known, or takes it to the target of a downgrade,
// which ends once every member runs that.
func (p *Proc) settleVersion() {
	now := time.Now()
	if now.Before(p.versionAt) || p.st.applied == 0 {
		return
	}
	p.versionAt = now.Add(versionInterval)
	lowest, highest, all := p.releases()
	switch down := p.st.down; {
	case lowest.IsZero():
	case !down.IsZero() && p.launch.Version.Has(cluster.DowngradeAPI) && p.st.version != down:
		p.proposeOwn(op{Kind: opVersion, Version: down})
	case !down.IsZero():
		if all && lowest == down && highest == down {
			p.proposeOwn(op{Kind: opDowngrade})
		}
	case p.st.version.Compare(lowest) < 0:
		p.proposeOwn(op{Kind: opVersion, Version: lowest})
	}
}

// releases are the lowest and highest lines that members run; all tells whether
// every one is known. Before there is a cluster version, an unknown one counts as
// the oldest; later nothing is known then.
func (p *Proc) releases() (lowest, highest cluster.Version, all bool) {
	lowest = p.launch.Version.Base()
	highest, all = lowest, true
	for _, m := range p.st.list() {
		if m.ID == p.member {
			continue
		}
		o := p.peer(m.ID)
		if o == nil || o.paused || !p.net.linked(p.host, o.host) {
			all = false
			if !p.st.version.IsZero() {
				return cluster.Version{}, cluster.Version{}, false
			}
			lowest = cluster.Version{Major: 3}
			continue
		}
		if v := o.launch.Version.Base(); v.Compare(lowest) < 0 {
			lowest = v
		}
		if v := o.launch.Version.Base(); v.Compare(highest) > 0 {
			highest = v
		}
	}
	return lowest, highest, all
}

// settleFormat brings the data to the format of the cluster version.
func (p *Proc) settleFormat() {
	now := time.Now()
	if now.Before(p.formatAt) || !p.launch.Version.Has(cluster.StorageVersion) || p.st.version.IsZero() || p.st.version.Minor == 0 {
		return
	}
	p.formatAt = now.Add(versionInterval)
	p.data.format = p.st.version
}

// unreadable says why a release does not start on the data; empty: it does.
func (p *Proc) unreadable() string {
	switch v := p.st.version; {
	case !v.IsZero() && older(p.launch.Version, v) && p.st.applied >= p.data.cut: // a snapshot comes whole: what it passes over was never here
		return fmt.Sprintf("panic: invalid downgrade; server version %s is lower than determined cluster version", p.launch.Version)
	case p.data.format.AtLeast(3, 6) && older(p.launch.Version, p.data.format):
		return fmt.Sprintf("panic: data of format %s under etcd %s", p.data.format, p.launch.Version)
	}
	return ""
}

// Agreed implements host.Member.
func (m Member) Agreed(ctx context.Context) (cluster.Agreement, error) {
	v, err := m.ask(ctx, "get version", true, func(p *Proc, r *request) {
		p.linearizable(func() {
			a := cluster.Agreement{Version: p.st.version, Downgrade: !p.st.down.IsZero()}
			if !p.launch.Version.AtLeast(3, 5) {
				a.Auth = new(bool)
			}
			r.finish(a, nil)
		}, func(err error) { r.finish(nil, err) })
	})
	if err != nil {
		return cluster.Agreement{}, err
	}
	return v.(cluster.Agreement), nil
}

// Downgrade implements host.Member. Source: downgradeEnable of etcdserver. A
// member of 3.5 carries it out and never answers; held by TestDowngrade of
// internal/etcd for those that do.
func (m Member) Downgrade(ctx context.Context, to cluster.Version) error {
	_, err := m.change(ctx, "downgrade", func(p *Proc, r *request) {
		p.linearizable(func() {
			switch v := p.st.version; {
			case !p.st.down.IsZero(), to.Major != v.Major, to.Minor != v.Minor-1:
				r.finish(nil, ErrDowngrade)
			default:
				p.setDowngrade(r, to)
			}
		}, func(err error) { r.finish(nil, err) })
	})
	return err
}

// CancelDowngrade implements host.Member.
func (m Member) CancelDowngrade(ctx context.Context) error {
	_, err := m.change(ctx, "cancel downgrade", func(p *Proc, r *request) {
		p.linearizable(func() {
			if p.st.down.IsZero() {
				r.finish(nil, ErrNoDowngrade)
				return
			}
			p.setDowngrade(r, cluster.Version{})
		}, func(err error) { r.finish(nil, err) })
	})
	return err
}

// setDowngrade begins or ends a downgrade.
func (p *Proc) setDowngrade(r *request, to cluster.Version) {
	o := op{Kind: opDowngrade, Version: to}
	if p.launch.Version.Has(cluster.DowngradeAPI) {
		p.submit(r, o)
		return
	}
	p.proposeOwn(o)
	p.later(reqTimeout, func() { r.finish(nil, errTimeout) })
}

// unreadV2 reports whether this release ends on a request of version 2 at an
// index. What the leader had cut at its start it sends as a raft snapshot, and
// that is the receiver's from then on. Source: applyEntryNormal of 3.7.
func (p *Proc) unreadV2(index uint64) bool {
	p.coverBy(index)
	return p.launch.Version.AtLeast(3, 7) && index > p.data.cut
}

// coverBy takes over the raft snapshot of the leader where that covers an index.
func (p *Proc) coverBy(index uint64) { p.coverFrom(p.lead, index) }

// coverFrom does so for what a leader sends. Each raft snapshot drops the first entry
// at least, so one that has none yet is sent the snapshot, however short the log is.
// Source: compactRaftLog of etcd, and seen with 3.6.16 and 3.5.35.
func (p *Proc) coverFrom(from cluster.MemberID, index uint64) {
	leader := p.peer(from)
	if leader == nil || leader == p {
		return
	}
	kept := leader.firstKept
	if index == 1 {
		kept = max(kept, leader.data.cut)
	}
	if index <= kept && index > p.data.cut {
		p.data.cut, p.data.refused = kept, maps.Clone(leader.data.refused)
		p.firstKept = kept // and it has nothing older to send, should it lead
	}
}

// judgeChange validates a change of the membership, by the limits of this
// process. What a raft snapshot covers was judged by those of its time.
func (p *Proc) judgeChange(index uint64, cc *raftpb.ConfChange, c confContext) error {
	if p.coverBy(index); index <= p.data.cut {
		if p.data.refused[index] {
			return errors.New("refused before the raft snapshot")
		}
		return nil
	}
	err := p.st.validate(cc, c, p.maxL)
	if p.data.refused == nil {
		p.data.refused = map[uint64]bool{}
	}
	if delete(p.data.refused, index); err != nil {
		p.data.refused[index] = true
	}
	return err
}

// cutLog cuts a raft snapshot where the process was told to at each entry.
func (p *Proc) cutLog() {
	if p.exit == "" && p.launch.Cut {
		p.data.cut = p.st.applied
	}
}

// V2InLog reports whether a request of version 2 lies behind the newest raft
// snapshot.
func (n *Net) V2InLog(d *Data) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range d.entries {
		if e.GetIndex() > d.cut && bytes.Contains(e.Data, []byte(`"v2":true`)) {
			return true
		}
	}
	return false
}
