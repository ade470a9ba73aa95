package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

const (
	// callEvery is how often a daemon calls another one itself although it is called
	// by it: who only listens does not know whether its own calls arrive.
	callEvery = 20 * time.Second
	// answerLasts is how long an answer to such a call counts: until the next one, with
	// time for that one to be lost and made again.
	answerLasts = callEvery + 5*time.Second
	// unansweredFor is how long a daemon reaches no quorum by its calls, which another
	// one does, before it leaves the lead to that one: longer than an answer counts, so
	// that where nobody is answered any more, nobody gives way to one who was.
	unansweredFor = answerLasts + 5*time.Second
)

// answeredLocked notes the answer to a call of this daemon's own. Where it came from where
// the host says that it is reached, a leader calls it there. And an answer is for who asked,
// so it has what its daemon remembers of this host, unless that one has not read its own
// state yet.
func (g *Gossip) answeredLocked(t *target, reply cluster.Ping, now time.Time) {
	q := g.peers[reply.Host]
	if q == nil {
		return
	}
	if reply.Endpoint == t.endpoint {
		q.answered = now
	}
	if !q.told && reply.Disk != "" {
		q.told = true
		g.ringLocked()
	}
}

// calledAgain reports whether a target is called now, although it has just called this
// daemon. They call each other at the next beat as one of them does then.
func (t *target) calledAgain(now time.Time) bool {
	return !t.busy && now.Sub(t.asked) >= callEvery
}

// reachesLocked is whose daemons answer this one's calls, itself included, sorted.
func (g *Gossip) reachesLocked(now time.Time) []cluster.HostID {
	out := []cluster.HostID{g.self}
	for id, p := range g.peers {
		if !p.answered.IsZero() && now.Sub(p.answered) < answerLasts {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// votersLocked is who carries the voters, as far as this daemon knows; before there are
// any, every daemon in sight.
func (g *Gossip) votersLocked(now time.Time) []cluster.HostID {
	if len(g.voters) > 0 {
		return g.voters
	}
	out := []cluster.HostID{g.self}
	for id := range g.peers {
		if g.election.Live(id, now) {
			out = append(out, id)
		}
	}
	return out
}

// unansweredLocked is the excuse of a daemon whose calls have reached no quorum for a
// while, where another one's do. A leader whose looks find a quorum has none.
func (g *Gossip) unansweredLocked(now time.Time) string {
	var others [][]cluster.HostID
	for id, p := range g.peers {
		if g.election.Live(id, now) && !p.last.Leaving && election.Before(p.last.Unfit, election.UnfitUnanswered) {
			others = append(others, p.last.Reaches)
		}
	}
	well := g.wellLed && g.election.Leading()
	if well || g.hearing.gone(now) || !election.Unanswered(g.votersLocked(now), g.reachesLocked(now), others) {
		g.unansweredSince = time.Time{}
		return ""
	}
	if g.unansweredSince.IsZero() {
		g.unansweredSince = now
	}
	if now.Sub(g.unansweredSince) < unansweredFor {
		return ""
	}
	return election.UnfitUnanswered
}

// unansweredWords names who is heard and does not answer; nil: this daemon has not that
// excuse.
func (g *Gossip) unansweredWords() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.election.Unfit != election.UnfitUnanswered {
		return nil
	}
	now := time.Now()
	own := g.reachesLocked(now)
	var heard []string
	for id, p := range g.peers {
		if g.election.Live(id, now) && !slices.Contains(own, id) {
			heard = append(heard, fmt.Sprintf("%s at %s", id, p.contact.Endpoint))
		}
	}
	slices.Sort(heard)
	if len(heard) == 0 {
		return errors.New("other hosts reach a quorum, and this one does not")
	}
	return fmt.Errorf("heard, and not reached: %s; look at what lets connections out of this host, such as its firewall", strings.Join(heard, ", "))
}
