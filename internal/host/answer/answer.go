// Package answer makes the answers of a host that was asked to carry out an op.
package answer

import (
	"fmt"

	"etcdadm.io/cluster"
)

func reply(o cluster.Outcome, format string, args ...any) cluster.ApplyReply {
	return cluster.ApplyReply{Outcome: o, Reason: fmt.Sprintf(format, args...)}
}

// Done is for an op that was carried out, or whose effect was there already.
func Done(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeDone, format, args...)
}

// Refused is for an op that has changed nothing.
func Refused(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeRefused, format, args...)
}

// RefusedWithHint also says what can be done about it.
func RefusedWithHint(hint, format string, args ...any) cluster.ApplyReply {
	r := Refused(format, args...)
	r.Hint = hint
	return r
}

// Failed is for an op that may have changed something, and has not come to its end.
func Failed(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeFailed, format, args...)
}

// Unknown is for an op of which nobody knows whether it took effect.
func Unknown(format string, args ...any) cluster.ApplyReply {
	return reply(cluster.OutcomeUnknown, format, args...)
}
