package roll

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// RotateAsked writes down what a person wants of a rotation: a new one, how far it may go, or that it is taken back.
// The loop takes it from there, so that the step is done once it is written.
func RotateAsked(v *step.View) *decision.Decision {
	asked := v.Goal.Rotate
	if asked == nil || !asked.Until.Reaches(cluster.RotateTrust) || asked.Until == cluster.RotateDone {
		return decision.Refuse("authorities-rotating", "", "say how far the authorities are to be rotated")
	}
	if v.Intent == nil || v.Intent.Adopted() || v.Intent.State != cluster.IntentFounded || !v.Seen {
		return decision.Refuse("authorities-rotating", "etcdadm status", "the authorities are rotated while the cluster serves, and it does not")
	}
	r := v.Intent.Rotation
	switch {
	case asked.Undo:
		return undoRotation(v, r)
	case r.Over() && rotationID(r) != asked.Was:
		return &decision.Decision{Reason: words.F("the authorities were rotated ({phase})", phaseWords(r)), Done: true}
	case r.Over() && asked.Begin:
		return beginRotation(v)
	case r == nil:
		return decision.Refuse("authorities-rotating", RotateCommand, "no authorities are being rotated")
	case r.Over(): // said again
		return &decision.Decision{Reason: words.F("no authorities are being rotated; the last rotation is {phase}", phaseWords(r)), Done: true}
	case r.Until.Reaches(asked.Until):
		return &decision.Decision{Reason: words.F("the authorities are being rotated ({phase})", phaseWords(r)), Done: true}
	}
	next := *r
	next.Until = asked.Until
	return writeAsked(v, &next, words.F("rotate the authorities further: {until} is allowed", next.Until))
}

func rotationID(r *cluster.Rotation) string {
	if r == nil {
		return ""
	}
	return r.ID
}

// undoRotation leads back to the old authorities.
func undoRotation(v *step.View, r *cluster.Rotation) *decision.Decision {
	switch {
	case r != nil && r.Undo:
		return &decision.Decision{Reason: words.F("the rotation of the authorities is being taken back ({phase})", phaseWords(r)), Done: true}
	case r.Over():
		return decision.Refuse("authorities-rotating", "", "no authorities are being rotated")
	case r.Phase == cluster.RotateDrop:
		return decision.Refuse("authorities-rotating", RotateCommand, "the old authorities are being dropped already, and some hosts trust them no more; once that is done, rotate to new ones")
	}
	next := *r
	next.Undo, next.Phase, next.Until = true, cluster.RotateSign, cluster.RotateSign
	if r.Phase == cluster.RotateTrust { // nobody has a certificate of the next ones
		next.Until = cluster.RotateDrop
	}
	return writeAsked(v, &next, words.F("take the rotation of the authorities back"))
}

// beginRotation writes a new rotation down. Its ID and the next certificates are made by whoever writes it.
func beginRotation(v *step.View) *decision.Decision {
	if why := mayNotRotate(v); why != "" {
		return decision.Refuse("authorities-rotating", "", "the authorities cannot be rotated now: {why}", why)
	}
	r := &cluster.Rotation{Phase: cluster.RotateTrust, Until: v.Goal.Rotate.Until, By: v.Obs.Leader, At: v.Obs.Clock()}
	first, _ := v.Obs.Host(v.Obs.Leader)
	for _, a := range first.Authorities.All {
		r.Authorities = append(r.Authorities, cluster.AuthorityChange{Name: a.Name, Old: cluster.AuthorityCertificate{SHA256: a.Signs}})
	}
	return writeAsked(v, r, words.F("rotate the authorities: make new ones on host {host}", r.By))
}

// mayNotRotate says why no rotation is begun now; empty: it may be.
func mayNotRotate(v *step.View) string {
	switch {
	case v.Intent.Halted() != nil || v.Intent.Quarantined || len(v.Obs.Commands) > 0:
		return "another generation of the cluster is being made"
	case v.Roster.Running().Downgrade:
		return "etcd is being downgraded"
	}
	first, there := v.Obs.Host(v.Obs.Leader)
	if !there || first.Authorities == nil {
		return fmt.Sprintf("host %s, which leads, has no TLS", v.Obs.Leader)
	}
	for _, id := range everyHost(v.Sight) {
		h, there := v.Obs.Host(id)
		switch {
		case !there:
			return fmt.Sprintf("host %s is unreachable%s; bring it back, or: etcdadm host forget %s", id, v.BusyWith(id), cluster.ShellWord(string(id)))
		case !h.UnderFence:
			return fmt.Sprintf("host %s gave this leader no promise", id)
		}
		if why := hostCannot(h, first.Authorities); why != "" {
			return why
		}
	}
	for _, s := range v.Roster.Seats {
		if s.HostID == "" {
			return fmt.Sprintf("no host says that it carries member %s", s.ID)
		}
	}
	if len(v.Obs.Incompatible) > 0 {
		return fmt.Sprintf("a daemon at %s does not understand this one: %s", v.Obs.Incompatible[0].Endpoint, v.Obs.Incompatible[0].Why)
	}
	return ""
}

// hostCannot says why a host could not follow a rotation; empty: it could.
func hostCannot(h *cluster.HostReport, of *cluster.HostAuthorities) string {
	a := h.Authorities
	switch {
	case a == nil:
		return fmt.Sprintf("host %s does not tell whom it trusts: its daemon is of an earlier release, or without TLS", h.Host)
	case !a.Daemons:
		return fmt.Sprintf("host %s has no TLS between daemons, over which the keys go; exchange the files by hand (docs/operations/tls.md)", h.Host)
	case a.Problem != "":
		return fmt.Sprintf("host %s: %s", h.Host, a.Problem)
	case readsOnce(h) != "":
		return fmt.Sprintf("host %s: %s", h.Host, readsOnce(h))
	}
	for _, want := range of.All {
		x, _ := a.Of(want.Name)
		switch {
		case x.Signs == "":
			return fmt.Sprintf("host %s does not have %s.key", h.Host, want.Name)
		case x.Signs != want.Signs || !slices.Equal(x.Trusts, want.Trusts):
			return fmt.Sprintf("host %s has other certificates of %s than the leading host; make their files equal first", h.Host, want.Name)
		case strings.Join(x.Leaves, "") != want.Signs && len(x.Leaves) > 0:
			return fmt.Sprintf("host %s uses certificates that its %s has not signed; it issues others within 10 minutes", h.Host, want.Name)
		}
	}
	return ""
}

// writeAsked is writeRotation for a person who waits.
func writeAsked(v *step.View, r *cluster.Rotation, reason words.Text) *decision.Decision {
	if d := writeRotation(v, r, reason); d != nil {
		return d
	}
	return decision.Refuse("store-silent", "", "the record cannot be read or written now, and nothing was changed: {unread}", v.UnreadWords())
}
