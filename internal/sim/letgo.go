package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// carriedOut carries an op out at a machine, and looks whether it took a voter away that served
// while another one's host may go by a pause: that may be gone at any moment, by a person.
func (w *World) carriedOut(m *machine, q cluster.ApplyRequest, apply func() cluster.ApplyReply) cluster.ApplyReply {
	var victim *machine
	switch q.Op.Kind {
	case cluster.OpRestart, cluster.OpDefragment, cluster.OpPause:
		victim = m
	case cluster.OpRemove:
		for _, o := range w.hosts() {
			if s, ok := o.state(); ok && s.Local.Member == q.Op.Member {
				victim = o
			}
		}
	}
	if victim == nil || !w.servesAsVoter(victim) {
		return apply()
	}
	r := apply()
	if others := w.letGo(victim); r.Outcome == cluster.OutcomeDone && len(others) > 0 {
		w.violate("%s takes the voter of %s away while %s may go", q.Op, victim.name, strings.Join(others, " and "))
	}
	return r
}

// servesAsVoter: its member votes, and sees a raft leader.
func (w *World) servesAsVoter(m *machine) bool {
	s, ok := m.state()
	return ok && w.isVoter(s.Local.Member) && slices.ContainsFunc(w.etcd.Look(), func(x fakeetcd.Seen) bool {
		return x.Member == s.Local.Member && x.Serving && x.Leader != 0 && !x.Paused
	})
}

func (w *World) isVoter(id cluster.MemberID) bool {
	voters, _ := w.voters()
	return slices.ContainsFunc(voters, func(v cluster.Member) bool { return v.ID == id })
}

// letGo are the machines of other voters whose disks say that they may go.
func (w *World) letGo(except *machine) (out []string) {
	for _, m := range w.hosts() {
		s, ok := m.state()
		if m == except || !ok || !w.isVoter(s.Local.Member) {
			continue
		}
		data, err := medium{m}.Read(record.PauseFile)
		var f struct {
			Pauses []struct {
				cluster.Pause
				Generation uint64    `json:"generation"`
				At         time.Time `json:"at"`
			} `json:"pauses"`
		}
		if err != nil || json.Unmarshal(data, &f) != nil {
			continue
		}
		for _, p := range f.Pauses {
			if time.Since(p.At) < p.For && s.Newest() <= p.Generation {
				out = append(out, m.name)
			}
		}
	}
	return out
}
