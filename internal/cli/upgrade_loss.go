package cli

import (
	"errors"
	"fmt"
	"io"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
	"etcdadm.io/plan/path"
)

// lastList is --accept-loss without a digest: the list that was made last.
const lastList = "lastList"

// upgradeWay is what --dry-run prints: the way, and the list of losses if it goes
// key by key and one was made.
type upgradeWay struct {
	path.Path
	Survey *cluster.Survey `json:"survey,omitempty"`
}

func (w upgradeWay) String() string {
	if w.Survey == nil {
		return w.Path.String()
	}
	return w.Path.String() + w.Survey.String()
}

// surveyOn is the newest list for the hop that goes key by key; nil: there is none
// of either.
func surveyOn(p path.Path, o *cluster.Observation) *cluster.Survey {
	for _, h := range p.Hops {
		if h.Kind == path.Logical {
			return plan.VersionSurvey(o, h.To)
		}
	}
	return nil
}

// takeLoss makes a digest of --accept-loss.
func (u *upgrade) takeLoss(o *cluster.Observation, to cluster.Version, out io.Writer) error {
	if u.loss != lastList {
		return nil
	}
	s := surveyOn(plan.VersionPath(o, to), o)
	switch {
	case s == nil:
		return &Failure{
			Code: ExitUnsafe, Err: errors.New("nothing was changed: the list of keys that cannot be carried over does not exist yet"),
			Advice: fmt.Sprintf("etcdadm upgrade %s --accept-outage makes the list without stopping anything, and continues only if nothing is lost", to),
		}
	case !s.Loses():
		u.loss = ""
		return nil
	}
	fmt.Fprint(out, s.String())
	u.loss = s.Digest
	return nil
}
