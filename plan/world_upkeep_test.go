package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/upkeep"
)

// worldDB is the database of a member, in bytes.
type worldDB struct {
	size, inUse, live int64
}

// upkeepFault changes the world around etcd's own ills:
//
//	told [threshold=N] [hash=D] [keep-history]   what the leader was told about them
//	db H… size=N in-use=N live=N                 sizes of the members' databases, in MiB
//	quota H… N                                   members started now get that quota, in MiB
//	full H…                                      the member raises NOSPACE
//	rot H… [N] [from=REVISION]                   the member's keys are others than the log says, from a revision on
//	raise ALARM H|all                            etcd says so
//	slow-hash H                                  a hash of the member is begun and does not end
//	disarm                                       a person takes all alarms back
func (w *world) upkeepFault(d *datadriven.TestData, args []string) bool {
	mib := func(key string) int64 {
		a, ok := d.Arg(key)
		if !ok {
			return 0
		}
		n, _ := strconv.ParseInt(a.Vals[0], 10, 64)
		return n << 20
	}
	switch d.Cmd {
	case "told":
		w.told = cluster.Upkeep{KeepHistory: d.HasArg("keep-history")}
		if a, ok := d.Arg("threshold"); ok {
			w.told.DefragThreshold, _ = strconv.Atoi(a.Vals[0])
		}
		if a, ok := d.Arg("hash"); ok {
			w.told.HashInterval, _ = time.ParseDuration(a.Vals[0])
		}
	case "db":
		for _, id := range args {
			w.host(cluster.HostID(id)).db = worldDB{mib("size"), mib("in-use"), mib("live")}
		}
	case "quota":
		for _, id := range args[:len(args)-1] {
			n, _ := strconv.ParseInt(args[len(args)-1], 10, 64)
			w.host(cluster.HostID(id)).Options = []string{fmt.Sprintf("--quota-backend-bytes=%d", n<<20)}
		}
	case "full":
		for _, id := range args {
			w.raise(cluster.AlarmNoSpace, w.host(cluster.HostID(id)))
		}
	case "rot":
		at := uint32(1)
		for _, id := range args {
			if n, err := strconv.Atoi(id); err == nil {
				at = uint32(n)
			}
		}
		for _, id := range args {
			if h := w.host(cluster.HostID(id)); h != nil {
				h.keys, h.keysFrom = at, mib("from")>>20
			}
		}
	case "raise":
		w.raise(args[0], w.host(cluster.HostID(args[1])))
	case "slow-hash":
		w.host(cluster.HostID(args[0])).slowHash = true
	case "disarm":
		w.clusters[len(w.clusters)-1].alarms = nil
	default:
		return false
	}
	return true
}

func (w *world) raise(kind string, h *worldHost) {
	c, text := w.clusters[len(w.clusters)-1], kind
	if h != nil {
		c, text = w.clusterOf(h), kind+" "+h.Local.Member.String()
	}
	if !slices.Contains(c.alarms, text) {
		c.alarms = append(c.alarms, text)
	}
}

// sizes is what a member says of its database.
func (w *world) sizes(h *worldHost, st *cluster.MemberStatus) {
	st.DBSize, st.DBInUse = h.db.size, h.db.inUse
	if q, ok := upkeep.OptionOf(h.Local.Options, "quota-backend-bytes"); ok {
		st.Quota, _ = strconv.ParseInt(q, 10, 64)
	}
}

// databaseCall is what goes through raft.
func (w *world) databaseCall(h *worldHost, c *worldCluster, op cluster.Op) error {
	if op.Kind == cluster.OpDisarm {
		c.alarms = slices.DeleteFunc(c.alarms, func(s string) bool { return s == op.Alarm+" "+op.Member.String() })
		for _, h := range w.hosts { // the next write finds who is still beyond its quota
			st := cluster.MemberStatus{}
			w.sizes(h, &st)
			if w.clusterOf(h) == c && st.Capacity() > 0 && st.DBSize >= st.Capacity() {
				w.raise(cluster.AlarmNoSpace, h)
			}
		}
		return nil
	}
	if op.Revision > int64(c.index) {
		return fmt.Errorf("etcd: future revision")
	}
	c.compacted = max(c.compacted, op.Revision)
	for _, x := range w.hosts {
		past := x.db.inUse - x.db.live
		x.db.inUse = x.db.live + past*(int64(c.index)-c.compacted)/int64(c.index)
	}
	h.Database = &cluster.DatabaseWork{Member: h.Local.Member, Compacted: c.compacted, CompactedAt: w.now.Add(h.skew)}
	return nil
}

func (w *world) upkeep(h *worldHost, op cluster.Op) error {
	c := w.clusterOf(h)
	if c == nil || h.Local.Member != op.Member {
		return fmt.Errorf("another member")
	}
	if op.Kind == cluster.OpDefragment {
		n, alive := w.voters(c)
		if n > 2 && alive-1 < cluster.Quorum(n) || alive < n && n == 2 { // raft goes on in the one that is being written anew
			return fmt.Errorf("a defragmentation that takes the quorum")
		}
		was := h.Database
		h.Database = &cluster.DatabaseWork{Member: op.Member, Before: h.db.size, After: h.db.inUse, Defragmented: w.now.Add(h.skew)}
		if was != nil {
			h.Database.Compacted, h.Database.CompactedAt = was.Compacted, was.CompactedAt
		}
		h.db.size = h.db.inUse
		return nil
	}
	if op.Doubt != cluster.DoubtNone {
		h.Local.Doubt = cluster.DoubtFound
	}
	c.rehashed++
	h.Hash = &cluster.Hash{
		Running: h.slowHash, Began: w.now.Add(h.skew), Ended: w.now.Add(h.skew + time.Duration(c.rehashed)), Member: op.Member, Cluster: c.id,
		Asked: op.Revision, Hash: h.keys, Compacted: c.compacted,
	}
	if op.Revision < h.keysFrom {
		h.Hash.Hash = 0
	}
	if op.Revision < c.compacted {
		h.Hash.Error = "hash keys: revision was compacted"
	}
	return nil
}
