package plan

import (
	"time"
)

// storeOddsAfter is how long a daemon has to see another store than the leader before
// that is told: longer than its look can be old.
const storeOddsAfter = 45 * time.Second

// storeOdds names the hosts whose daemons see another backup store than the leading
// one, or none. It stops nothing: the leader's own sight is what is acted on.
func storeOdds(v *view) {
	for _, h := range v.obs.Memory.Hosts {
		if h.StoreSince.IsZero() || v.obs.At.Sub(h.StoreSince) < storeOddsAfter {
			continue
		}
		if why := v.obs.StoreOdds(h.Host); why != "" {
			v.aside("store-differs", "", "host %s does not see the backup store that the leading daemon sees: it %s; it cannot lead or found. %s", h.Host, why, lookAtFlags)
		}
	}
}

const lookAtFlags = "Compare its --backup-store and credentials with those of the other hosts"
