package sim

import "time"

const (
	// withNetworks is the share of the seeds in which a whole network is lost.
	withNetworks = 0.25
	// networksBegin is where the numbers of a seed for them begin.
	networksBegin = 1 << 41
)

// loseNetwork parts every host from every other for a while, in one of the networks:
// either the members cannot speak with each other and the daemons can, or the other
// way round.
func (g *generator) loseNetwork() {
	x := &g.networks
	w := g.w
	lost := []plane{members, daemons}[x.next().below(2)]
	long := x.next().within(time.Second, 100*time.Second)
	var ways []way
	for _, a := range g.up() {
		for _, b := range g.up() {
			if a != b {
				ways = append(ways, way{lost, a.ID(), b.ID()})
			}
		}
	}
	w.tracef("", "the network of the %s is lost for %s", lost, long)
	w.count("network of the " + string(lost) + " lost")
	w.cuts.set(true, ways...)
	w.later(long, func() {
		w.tracef("", "the network of the %s is back", lost)
		w.cuts.set(false, ways...)
	})
}
