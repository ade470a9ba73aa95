package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// RotateCommand is the command of a person for all that is about a rotation.
const RotateCommand = "etcdadm certs rotate-ca"

// Rotate takes a rotation of the authorities on (docs/adr/033-rotating-the-authorities.md). Hosts follow the record
// by themselves; here members are restarted, and the next phase is written once every host and every member is as
// this one asks. While somebody is not it says so, and everything else goes on.
func Rotate(v *step.View) *decision.Decision {
	if v.Intent == nil || v.Intent.Rotation.Over() || !v.Seen {
		return nil
	}
	r := v.Intent.Rotation
	if lacking := RotationLacks(v.Sight); len(lacking) > 0 {
		v.Advise("authorities-rotating", lacking[0].Advice, lacking[0].Command, "the authorities are being rotated ({phase}); waiting for {lacking}", phaseWords(r), lackWords(lacking))
		return nil
	}
	if d, waits := rotateMember(v, r); d != nil || waits {
		return d
	}
	next := *r
	switch {
	case r.Phase == cluster.RotateTrust && r.Until.Reaches(cluster.RotateSign):
		next.Phase = cluster.RotateSign
	case r.Phase == cluster.RotateSign && r.Until.Reaches(cluster.RotateDrop):
		next.Phase = cluster.RotateDrop
	case r.Phase == cluster.RotateDrop:
		next.Phase = cluster.RotateDone
	default:
		what, command := nextWords(r)
		v.Advise("authorities-rotating", what, command, "the authorities are being rotated ({phase}), and every host and member is ready for the next step, which waits for a person", phaseWords(r))
		return nil
	}
	return writeRotation(v, &next, words.F("every host and member is ready: rotate the authorities on ({phase})", phaseWords(&next)))
}

// rotateMember restarts one member that was started with other certificates than it is to trust. waits: one is to be
// restarted, and may not be away.
func rotateMember(v *step.View, r *cluster.Rotation) (d *decision.Decision, waits bool) {
	for _, leading := range []bool{false, true} { // raft's leader last, so that it moves once
		for _, s := range v.Roster.Seats {
			if s.RaftLeader != leading {
				continue
			}
			why := restartsFor(r, s.Host)
			switch h := v.MayBeAway(s); {
			case why == "":
			case !s.Up:
				v.Advise("authorities-rotating", "", "", "the authorities are being rotated ({phase}); the member of {member} has to be up before it is restarted: {why}", phaseWords(r), words.SeatName(s), s.Why)
				waits = true
			case h != nil && h.Blocks && !s.Learner:
				v.Advise("authorities-rotating", "", "", "the authorities are being rotated ({phase}); the member of {member} is to be restarted, and {why}", phaseWords(r), words.SeatName(s), h.Why)
				waits = true
			default:
				return step.RestartOne(v, s, why), true
			}
		}
	}
	return nil, waits
}

// restartsFor says why a member is restarted; empty: it was started with what it is to trust.
func restartsFor(r *cluster.Rotation, h *cluster.HostReport) string {
	if h == nil || h.Authorities == nil || !h.Authorities.Etcd {
		return ""
	}
	for _, c := range r.Authorities {
		if !etcdReads(c.Name) {
			continue
		}
		for _, t := range r.Trusts(c) {
			if !slices.Contains(h.Process.Trusts, t.SHA256) {
				return "so that it trusts the " + ageOf(c, t) + " " + c.Name
			}
		}
		if r.Drops() && slices.Contains(h.Process.Trusts, r.Leaves(c).SHA256) {
			return "so that it trusts the " + ageOf(c, r.Leaves(c)) + " " + c.Name + " no more"
		}
	}
	return ""
}

// etcdReads: etcd is started with certificates of this authority.
func etcdReads(authority string) bool { return authority != managers }

// managers is the authority that only daemons and people know; pki.ManagerCA.
const managers = "etcd-manager-ca"

func ageOf(c cluster.AuthorityChange, a cluster.AuthorityCertificate) string {
	if a.SHA256 == c.Next.SHA256 {
		return "next"
	}
	return "old"
}

// Lacking is a host that a phase waits for.
type Lacking struct {
	Host    cluster.HostID `json:"host"`
	Why     string         `json:"why"`
	Advice  string         `json:"advice,omitempty"`
	Command string         `json:"command,omitempty"`
}

// RotationLacks are the hosts that are not as the phase of the rotation asks, sorted. What is not known is not so.
func RotationLacks(v *sight.Sight) (out []Lacking) {
	r := v.Intent.Rotation
	for _, id := range everyHost(v) {
		h, there := v.Obs.Host(id)
		switch {
		case !there && v.Roster.Seated(id):
			out = append(out, Lacking{Host: id, Why: "it is unreachable" + v.BusyWith(id), Advice: "bring host " + string(id) + " back; a dead voter is replaced"})
		case !there:
			out = append(out, Lacking{Host: id, Why: "it is unreachable" + v.BusyWith(id), Advice: "bring host " + string(id) + " back; if it is gone for good", Command: "etcdadm host forget " + cluster.ShellWord(string(id))})
		case !h.UnderFence:
			out = append(out, Lacking{Host: id, Why: "it gave this leader no promise"})
		default:
			if why := cmp.Or(readsOnce(h), hostLacks(r, h.Authorities)); why != "" {
				out = append(out, Lacking{Host: id, Why: why})
			}
		}
	}
	for _, s := range v.Roster.Seats {
		if s.HostID == "" {
			out = append(out, Lacking{Host: cluster.HostID(s.ID.String()), Why: "no host says that it carries this member"})
		}
	}
	for _, n := range v.Obs.Incompatible {
		if n.Host == "" {
			out = append(out, Lacking{Host: cluster.HostID(n.Endpoint), Why: "a daemon there does not understand this one: " + n.Why})
		}
	}
	return out
}

// everyHost is whom the leader has heard of and nobody forgot, sorted.
func everyHost(v *sight.Sight) (out []cluster.HostID) {
	add := func(id cluster.HostID) {
		if id != "" {
			out = append(out, id)
		}
	}
	for i := range v.Obs.Hosts {
		add(v.Obs.Hosts[i].Host)
	}
	for _, g := range v.Obs.Gaps {
		add(g.Host)
	}
	for _, n := range v.Obs.Incompatible {
		add(n.Host)
	}
	for _, s := range v.Roster.Seats {
		add(s.HostID)
	}
	if v.Intent != nil {
		for _, w := range slices.Concat(v.Intent.Voters, v.Intent.Next) {
			add(w.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readsOnce says that the member of a host would go on with a former certificate until its next start, and be let in
// by nobody once that is not trusted any more; empty: it reads its certificate at each handshake. Source: 3.2 reloads
// it, and since 3.4 for callers by an address too (baseConfig of pkg/transport).
func readsOnce(h *cluster.HostReport) string {
	if v := h.Local.Version; h.Local.State == cluster.MemberStarted && !v.IsZero() && !v.AtLeast(3, 4) {
		return fmt.Sprintf("its etcd %s reads its certificate at its start only; upgrade it to 3.4 or later first", v)
	}
	return ""
}

// hostLacks says what a host lacks for the end of the phase; empty: nothing.
func hostLacks(r *cluster.Rotation, a *cluster.HostAuthorities) string {
	switch {
	case a == nil:
		return "it does not tell whom it trusts: its daemon is of an earlier release, or without TLS"
	case a.Problem != "":
		return a.Problem
	case !a.Followed(r):
		return "it has not followed yet"
	}
	for _, c := range r.Authorities {
		x, has := a.Of(c.Name)
		if !has {
			return "it has no " + c.Name
		}
		for _, t := range r.Trusts(c) {
			if !slices.Contains(x.Trusts, t.SHA256) {
				return "it does not trust the " + ageOf(c, t) + " " + c.Name
			}
		}
		switch {
		case r.Phase == cluster.RotateTrust && !slices.Contains(x.Keys, c.Next.SHA256):
			return "it lacks the key of the next " + c.Name
		case r.Phase == cluster.RotateTrust:
		case len(x.Leaves) > 1 || len(x.Leaves) == 1 && x.Leaves[0] != r.Signs(c).SHA256:
			return "it uses certificates that the " + ageOf(c, r.Signs(c)) + " " + c.Name + " has not signed"
		case x.Signs != r.Signs(c).SHA256:
			return "it would not sign with the " + ageOf(c, r.Signs(c)) + " " + c.Name
		case r.Drops() && slices.Contains(x.Trusts, r.Leaves(c).SHA256):
			return "it still trusts the " + ageOf(c, r.Leaves(c)) + " " + c.Name
		}
	}
	return ""
}

func lackWords(lacking []Lacking) string {
	var out []string
	for _, l := range lacking {
		out = append(out, fmt.Sprintf("host %s (%s)", l.Host, l.Why))
	}
	return strings.Join(out, ", ")
}

// phaseWords are a phase for people.
func phaseWords(r *cluster.Rotation) string {
	switch {
	case r.Phase == cluster.RotateTrust:
		return "1 of 3: all trust both"
	case r.Phase == cluster.RotateSign && r.Undo:
		return "undo, 1 of 2: certificates of the old ones"
	case r.Phase == cluster.RotateSign:
		return "2 of 3: certificates of the next ones"
	case r.Phase == cluster.RotateDrop && r.Undo:
		return "undo, 2 of 2: the next ones are dropped"
	case r.Phase == cluster.RotateDrop:
		return "3 of 3: the old ones are dropped"
	case r.Undo:
		return "undone"
	}
	return "done"
}

// nextWords are what a person does before the next step, and the command of it.
func nextWords(r *cluster.Rotation) (what, command string) {
	switch {
	case r.Phase == cluster.RotateTrust:
		return "give clients of etcd both certificates of etcd-clients-ca, on hosts by etcdadm certs renew, and restart those that read it at their start only", RotateCommand + " --sign"
	default:
		return "give clients of etcd new certificates, on hosts by etcdadm certs renew", RotateCommand + " --finish"
	}
}

// writeRotation is a write of the record with another state of the rotation.
func writeRotation(v *step.View, r *cluster.Rotation, reason words.Text) *decision.Decision {
	if !v.Obs.Store.Read || !v.Obs.Store.Conditional {
		v.Notice("authorities-rotating", "", "the record cannot be written, which rotating the authorities needs: {unread}", cmp.Or(v.UnreadWords(), "the store cannot write on a condition"))
		return nil
	}
	in := v.Intent.Clone()
	in.Rotation = r
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: reason, Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}, Projection: &p, Command: RotateCommand},
	}
}

// Rotation is how far a rotation of the authorities is, for people.
type Rotation struct {
	ID    string                `json:"id"`
	Phase cluster.RotationPhase `json:"phase"`
	Until cluster.RotationPhase `json:"until"` // a person has allowed
	Undo  bool                  `json:"undo,omitempty"`
	What  string                `json:"what"` // the phase in words
	// Lacking are the hosts that the phase waits for, Restarts the members that are restarted yet.
	Lacking  []Lacking        `json:"lacking,omitempty"`
	Restarts []cluster.HostID `json:"restarts,omitempty"`
	// Person: nothing is waited for but a person, who does what Advice says and then gives Command.
	Person  bool   `json:"person,omitempty"`
	Advice  string `json:"advice,omitempty"`
	Command string `json:"command,omitempty"`
}

// RotationOf is the rotation on record, over or not; nil: there never was one.
func RotationOf(o *cluster.Observation) *Rotation {
	if o == nil {
		return nil
	}
	v := sight.New(decision.Goal{Kind: decision.Converge}, o)
	if v.Intent == nil || v.Intent.Rotation == nil {
		return nil
	}
	r := v.Intent.Rotation
	out := &Rotation{ID: r.ID, Phase: r.Phase, Until: r.Until, Undo: r.Undo, What: phaseWords(r)}
	if r.Over() {
		return out
	}
	out.Lacking = RotationLacks(v)
	for _, s := range v.Roster.Seats {
		if restartsFor(r, s.Host) != "" {
			out.Restarts = append(out.Restarts, s.HostID)
		}
	}
	further := r.Phase == cluster.RotateTrust && r.Until.Reaches(cluster.RotateSign) || r.Until.Reaches(cluster.RotateDrop)
	if len(out.Lacking)+len(out.Restarts) == 0 && !further && v.Seen {
		out.Person = true
		out.Advice, out.Command = nextWords(r)
	}
	return out
}
