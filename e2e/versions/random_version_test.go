package versions

import (
	"math/rand/v2"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// rolled are the releases between which members can be rolled.
var rolled = []string{testetcd.V34, testetcd.V35, testetcd.V36, testetcd.V37}

// randomPath begins at any release and goes to others, each of which can be reached by rolling: any higher one, and lower
// ones down to 3.5.
func randomPath(random *rand.Rand, changes int) []string {
	path := []string{rolled[random.IntN(len(rolled))]}
	for len(path) <= changes {
		next := rolled[1+random.IntN(len(rolled)-1)]
		if next != path[len(path)-1] {
			path = append(path, next)
		}
	}
	return path
}

// From any version along a random path of rolls up and down, while daemons and members are killed at random moments: clients
// see a store that is linearizable, with revisions that go up, watches without a gap, leases that are kept, and no write lost.
func TestRandomVersionPaths(t *testing.T) {
	rig.LongOnly(t)
	chosen := chosenSeed(t)
	random := rand.New(rand.NewPCG(chosen, 0))
	path := randomPath(random, 3)
	t.Log(strings.Join(path, " → "))
	c := rig.Formed(t, 3, rig.Options{Version: path[0]})
	before := c.Voters(rig.Soon, 1, 2, 3)
	o := c.Observe(chosen)
	for _, version := range path[1:] {
		healed := o.Fault("to etcd " + version)
		c.Asks(version, 3)
		wait := o.Killings(random, 4)
		c.Runs(rig.Disturbed, 1, 2, 3)
		wait()
		healed()
	}
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	o.More(50)
	o.Judge()
}

// One change of version, up or down, in which one daemon or member is killed.
func TestRandomVersionHop(t *testing.T) {
	rig.TakesLong(t, "a minute")
	t.Parallel()
	chosen := chosenSeed(t)
	random := rand.New(rand.NewPCG(chosen, 0))
	hops := [][2]string{{testetcd.V34, testetcd.V35}, {testetcd.V35, testetcd.V36}, {testetcd.V36, testetcd.V37}, {testetcd.V37, testetcd.V36}, {testetcd.V36, testetcd.V35}}
	hop := hops[random.IntN(len(hops))]
	to := hop[1]
	t.Log(hop[0], "→", to)
	c := rig.Formed(t, 3, rig.Options{Version: hop[0]})
	before := c.Voters(rig.Soon, 1, 2, 3)
	o := c.Observe(chosen)
	o.More(50)
	healed := o.Fault("to etcd " + to)
	c.Asks(to, 3)
	if random.IntN(2) == 0 {
		c.Midway(to, 1, 2, 3)
	}
	o.Kill(c.Host(1+random.IntN(3)), random)
	c.Runs(rig.Disturbed, 1, 2, 3)
	healed()
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	o.More(50)
	o.Judge()
}
