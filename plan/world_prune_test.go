package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/upkeep"
)

// pruneFault changes the world around what is set aside:
//
//	keeps H D          the host keeps it for so long
//	aside-ends H N     the log that it set aside last ends at that index
//	writes N           clients write
//	prove [BAD]        the newest backup is verified, and was good, or BAD
//	alarm H            its member raises an alarm
//	jam H              what it set aside cannot be removed
//	old-record H       what it set aside has a record of an earlier release
func (w *world) pruneFault(d *datadriven.TestData, args []string) bool {
	switch d.Cmd {
	case "keeps":
		w.host(cluster.HostID(args[0])).PruneAfter, _ = time.ParseDuration(args[1])
	case "aside-ends":
		h := w.host(cluster.HostID(args[0]))
		h.SetAside[0].Log.Term = 2
		h.SetAside[0].Log.Index, _ = strconv.ParseUint(args[1], 10, 64)
		if h.SetAside[0].Log.Index == 0 { // it could not be read
			h.SetAside[0].Log = cluster.Progress{}
		}
	case "writes":
		n, _ := strconv.ParseUint(args[0], 10, 64)
		w.clusters[len(w.clusters)-1].index += n
	case "prove":
		w.queue.backups[0].Proven = len(args) == 0
	case "alarm":
		w.raise("CORRUPT", w.host(cluster.HostID(args[0])))
	case "jam":
		w.host(cluster.HostID(args[0])).jammed = true
	case "old-record":
		h := w.host(cluster.HostID(args[0]))
		h.SetAside = slices.Clone(h.SetAside)
		for i := range h.SetAside {
			h.SetAside[i].At, h.SetAside[i].Log, h.SetAside[i].Generation = time.Time{}, cluster.Progress{}, 0
		}
	default:
		return false
	}
	return true
}

// logOf is the end of the log of the member that a host carries.
func (w *world) logOf(h *worldHost) (p cluster.Progress) {
	c := w.clusterOf(h)
	if c == nil || h.Local.Took != 0 {
		return p
	}
	if _, listed := c.member(h.Local.Member); !listed && h.ended.Index != 0 {
		return h.ended
	}
	if h.stuck {
		return cluster.Progress{Term: c.term, Index: c.index / 2}
	}
	return cluster.Progress{Term: c.term, Index: c.index}
}

// pruneAside is as strict as a host is.
func (w *world) pruneAside(h *worldHost, op cluster.Op) error {
	i := slices.IndexFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Name() == op.Dir })
	if i < 0 {
		return fmt.Errorf("nothing is set aside as %s", op.Dir)
	}
	a := h.SetAside[i]
	switch {
	case !a.Prunable() || a.Cluster != op.Cluster || a.Member != op.Member || a.Generation != op.Generation:
		return fmt.Errorf("the record says something else: %+v", a)
	case h.PruneAfter <= 0 || w.now.Add(h.skew).Sub(a.At) < h.PruneAfter:
		return fmt.Errorf("it is too young")
	case h.Intent == nil || h.Intent.Cluster != a.Cluster || h.Intent.State != cluster.IntentFounded:
		return fmt.Errorf("another generation serves")
	case h.jammed:
		h.Problems = []cluster.Problem{{Code: upkeep.NotPruned, Sentence: "the directory could not be removed"}}
		return nil
	}
	h.SetAside = slices.Delete(slices.Clone(h.SetAside), i, i+1)
	return nil
}

// asides prints what becomes of everything that is set aside.
func (w *world) asides() string {
	var b strings.Builder
	for _, a := range upkeep.Asides(w.observe()) {
		fmt.Fprintf(&b, "%s %s, %s old: ", a.Host, a.Name(), a.Age.Round(time.Second))
		switch {
		case a.ByHand != "":
			fmt.Fprintf(&b, "by hand only: %s\n", a.ByHand)
		case a.Waits != "":
			fmt.Fprintf(&b, "waits: %s", a.Waits)
			if !a.After.IsZero() {
				fmt.Fprintf(&b, ", until %s", a.After.Format(time.RFC3339))
			}
			b.WriteString("\n")
		default:
			b.WriteString("goes now\n")
		}
	}
	return b.String()
}
