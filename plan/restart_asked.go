package plan

import (
	"fmt"
	"strings"
)

// restartAsked is a person's step: a member whose etcd runs with other settings than it
// would be started with is restarted in place, under the guards of options that roll. What
// runs with its settings is left alone, so that the step can be asked for again.
func restartAsked(v *view) *Decision {
	s, d := v.target()
	if d != nil {
		return d
	}
	switch {
	case s.Host == nil || !s.Host.UnderFence:
		return waitLater("member-silent", "", "the member of %s is not restarted while its host does not answer", seatName(s))
	case len(s.Host.Process.Differs) == 0 && s.Up:
		return &Decision{Reason: fmt.Sprintf("the member of %s runs with the settings that it would be started with", seatName(s)), Done: true}
	case len(s.Host.Process.Differs) == 0:
		return &Decision{Reason: fmt.Sprintf("the member of %s has its settings, and is not up yet: %s", seatName(s), s.Why), Again: soon}
	case v.withoutTLS(s.Host):
		return refuse("members-tls", "", "the member of %s would come back without TLS, which the other members speak with each other; give its daemon https in --peer-urls first", seatName(s))
	}
	return v.restartOne(s, "as asked, so that "+strings.Join(s.Host.Process.Differs, ", ")+" take effect")
}
