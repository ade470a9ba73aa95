package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Why has the next step of a rotation not been taken? rotate is all that there is to it;
// docs/adr/042-rotating-the-authorities-of-pods.md has the protocol and its schedules.

// byTimeGrace is how long clients have at each step of a rotation that nobody asked for.
const byTimeGrace = 30 * 24 * time.Hour

// betweenByTime is how long after a rotation nobody is given another one unasked, whatever the certificates say of their life.
const betweenByTime = 365 * 24 * time.Hour

// Authorities are those of the cluster, as their Secret says, and the step that they are at.
type Authorities struct {
	// There: the Secret is there, and what is known of it is of the last step. Of one that was changed amid a rotation Phase is known.
	There bool
	// Unmade: there never were any, but for the key for which an issuer may have been asked.
	Unmade bool
	// Issuer is who signed the clients' one that signs, or is to sign next. Asked is the request for another one; nil: none is out.
	Issuer Issuer
	Asked  *Asked
	// Rotate is the number of spec.tls.rotate by which the last rotation was begun, whatever became of the Secret.
	Rotate int
	Phase  cluster.RotationPhase
	// Since is when the phase began. ByTime: nobody asked for this rotation.
	Since  time.Time
	ByTime bool
	// Trusts, Signs and Member are certificates by their SHA-256, sorted: all that are trusted, those that sign, and those that
	// etcd is started with.
	Trusts, Signs, Member []string
	// Due is when they are to be replaced, and Ends when they end; zero: not known.
	Due, Ends time.Time
	// OtherEnds is when those end that are to sign next, in trust, or that signed before, in sign; zero: there are none, or not known.
	OtherEnds time.Time
}

// Trust is what a host told of certificates, by their SHA-256, sorted.
type Trust struct {
	Daemon []string // that its daemon trusts
	Member []string // that its etcd was started with; empty: none runs, or nobody knows
	Signed []string // that signed what it shows
}

// Rotation is a rotation that is under way.
type Rotation struct {
	Phase cluster.RotationPhase
	Waits string // for what; empty: for nothing
	// Until is how long clients have; zero: that is not what is waited for.
	Until time.Time
}

// rotation is the authorities of one world.
type rotation struct {
	*Authorities
	w *World
	d *Decision
}

// ended: nobody trusts the authorities any more, and nothing can be issued by them.
func (a *Authorities) ended(now time.Time) bool {
	return a != nil && a.There && !a.Ends.IsZero() && now.After(a.Ends)
}

// first is when the first of those ends that are trusted; zero: not known.
func (a *Authorities) first() time.Time {
	if !a.OtherEnds.IsZero() && (a.Ends.IsZero() || a.OtherEnds.Before(a.Ends)) {
		return a.OtherEnds
	}
	return a.Ends
}

// followed: those that sign have ended, or nobody signs, and the next ones are there, which last.
func (a *Authorities) followed(now time.Time) bool {
	return a.There && (a.ended(now) || a.Ends.IsZero()) && a.Phase == cluster.RotateTrust && now.Before(a.OtherEnds)
}

// late: the last half of the last third of their life has begun, and what is mere politeness counts no more.
func (a *Authorities) late(now time.Time) bool {
	left := a.Ends.Sub(a.Due)
	return !a.Due.IsZero() && left > 0 && !now.Before(a.Due.Add(left/2))
}

// worn: the next ones have so little of their life left that they would have to be replaced at once, and those that sign last longer.
func (a *Authorities) worn(now time.Time) bool {
	switch {
	case a.Phase != cluster.RotateTrust || a.OtherEnds.IsZero():
		return false
	case a.Ends.IsZero(): // nobody signs
		return now.After(a.OtherEnds)
	case !a.OtherEnds.Before(a.Ends):
		return false
	}
	return a.OtherEnds.Sub(now) < a.OtherEnds.Sub(a.Since)/6
}

// due: they are to be replaced although nobody asks for it.
func (a *Authorities) due(now time.Time) bool {
	between := betweenByTime
	if left := a.Ends.Sub(a.Due); !a.Ends.IsZero() && left > 0 {
		between = min(between, left) // of an issuer whose authorities live for less
	}
	return !a.Due.IsZero() && !now.Before(a.Due) && (now.Sub(a.Since) >= between || a.late(now))
}

// asked: others are asked for.
func (a rotation) asked() bool { return a.w.Want.Rotate > a.Rotate }

// rotate takes the next step of a rotation, once each host and member has been seen as the step before has it.
func (w *World) rotate(d *Decision) {
	if w.Authorities == nil || w.Authorities.Unmade {
		return
	}
	a := rotation{w.Authorities, w, d}
	if a.wakes() || w.Intent == nil || w.Intent.State != cluster.IntentFounded {
		return
	}
	asked := a.asked()
	other := a.There && w.Want.Issuer != a.Issuer // of what is lost nobody knows who signed it
	switch {
	case a.ended(w.Now) && a.followed(w.Now) && a.lacks() == "":
		a.step(cluster.RotateSign, "the authorities that sign have ended, and all trust the next ones")
	case a.ended(w.Now) && asked:
		a.replace(false, "the authorities have ended, and others are asked for")
	case a.ended(w.Now):
		a.hasEnded(false)
	case a.There && a.worn(w.Now) && w.fresh() != nil:
		d.Rotation = &Rotation{Phase: a.Phase, Waits: fmt.Sprintf("the next authorities end at %s, before they could be replaced in turn: others are made", a.OtherEnds.UTC().Format(time.RFC3339))}
		a.begin(cluster.RotateTrust, a.ByTime && !asked, "the next authorities end too soon")
	case a.There && a.Phase != cluster.RotateDone:
		a.goOn(asked || other)
	case w.fresh() == nil: // nobody waits with it, and by a clock that is wrong the next ones would be of another time
	case asked:
		a.begin(cluster.RotateTrust, false, fmt.Sprintf("spec.tls.rotate is %d", w.Want.Rotate))
	case other:
		a.begin(cluster.RotateTrust, false, others(w.Want.Issuer, a.Issuer))
	case a.There && a.due(w.Now) && (a.late(w.Now) || d.idle() && len(d.Waits) == 0 && w.fresh().AllUp):
		a.begin(cluster.RotateTrust, true, "two thirds of the authorities' life are over")
	}
}

// others says in what the clients' authority is to be another one.
func others(wanted, is Issuer) string {
	if wanted.Ref() == is.Ref() {
		return fmt.Sprintf("spec.tls.clients.trustIssuer is %v, and was %v", wanted.Trusted, is.Trusted)
	}
	return fmt.Sprintf("by spec.tls.clients %s signs the clients' authority, and %s signed it", who(wanted), who(is))
}

func who(i Issuer) string {
	if i == (Issuer{}) {
		return "the authority itself"
	}
	return i.String()
}

// replace has others sign in place of those that have ended, and nobody trust these any more: the next ones where they are there, and
// such as are made now where they are not.
func (a rotation) replace(unasked bool, why string) {
	if a.followed(a.w.Now) {
		a.step(cluster.RotateDrop, why+"; the next ones are there")
		a.d.Steps[0].Next = true
		return
	}
	a.begin(cluster.RotateDrop, unasked, why)
}

// hasEnded tells that nothing can be issued any more, and each way out. begun: others are to be made.
func (a rotation) hasEnded(begun bool) {
	says := fmt.Sprintf("the authorities ended at %s: no new connection is made, and no pod that starts joins the others, before all pods are started anew at once with others", a.Ends.UTC().Format(time.RFC3339))
	code := AuthorityEnded
	switch {
	case a.keyless():
		code, says = AuthorityGone, "the authorities' keys are lost, and hosts have no certificates that last: others are made before one starts"
	case begun && a.w.Rests():
		says = fmt.Sprintf("the authorities ended at %s while no pod ran: others are made before one starts", a.Ends.UTC().Format(time.RFC3339))
	}
	out, issuer := Wait{}, a.w.Want.Issuer
	switch {
	case !begun && !a.w.Stamped.IsZero() && !a.ended(a.w.Stamped):
		out = Wait{Code: AuthorityEnded, Sentence: a.apart()}
	case a.followed(a.w.Now):
		out = a.w.Renewed(code, says+": the next ones, which are there, sign then")
	case begun && issuer != (Issuer{}):
		out = Wait{Code: code, Sentence: fmt.Sprintf("%s. %s is to sign the clients' authority first. To do without it, take spec.tls.clients away", says, issuer), Command: a.w.patchTLS("clients", "null")}
	case issuer != (Issuer{}):
		out = a.w.Renewed(code, says)
		out.Sentence += fmt.Sprintf(". %s is asked then; to do without it, take spec.tls.clients away as well", issuer)
	default:
		out = a.w.Renewed(code, says)
	}
	a.d.Waits = append(a.d.Waits, out)
}

// apart says that the authorities have ended by the operator's clock, and not by the API server's.
func (a rotation) apart() string {
	return fmt.Sprintf("by the operator's clock the authorities ended at %s, and by the API server's they have not: the cluster goes on with them, and nothing is issued meanwhile. Set the clock that is wrong. Where it is the API server's, set spec.tls.rotate to %d for other authorities",
		a.Ends.UTC().Format(time.RFC3339), a.Rotate+1)
}

// begin writes the first phase of a rotation, once an issuer that is to sign the next clients' authority has done so. Until then all
// else of the cluster goes on with the authorities that are there.
func (a rotation) begin(to cluster.RotationPhase, byTime bool, why string) {
	meanwhile, before := a.goesOn(), len(a.d.Waits)
	if to == cluster.RotateDrop {
		a.hasEnded(true)
		meanwhile = "Until then no new connection is made"
	}
	if to == cluster.RotateDrop && a.w.Rests() { // whoever starts with what has ended joins nobody
		meanwhile = "Until then no host starts"
		a.holds()
	}
	if !a.w.signed(a.d, meanwhile) {
		for i := before; i < len(a.d.Waits); i++ {
			a.d.Waits[i].Aside = to == cluster.RotateTrust && a.There
		}
		return
	}
	a.d.Waits = a.d.Waits[:before]
	n := max(a.Rotate, a.w.Want.Rotate)
	a.d.Steps = []Step{{Kind: Rotate, Phase: to, Rotate: n, ByTime: byTime, Issuer: a.w.Want.Issuer, Why: why}}
}

// goesOn says how long there is time.
func (a rotation) goesOn() string {
	if a.Ends.IsZero() {
		return "Until then the authorities that are there go on"
	}
	return "Until then the authorities that are there go on, which end at " + a.Ends.UTC().Format(time.RFC3339)
}

// patchTLS is the command by which a person sets a field of spec.tls.
func (w *World) patchTLS(field, value string) string {
	return w.Kubectl(fmt.Sprintf("patch etcd %s --type=merge --patch=%s", w.Name, cluster.ShellWord(fmt.Sprintf(`{"spec":{"tls":{%q:%s}}}`, field, value))))
}

// Renewed is what is waited for where other authorities help, with the number that spec.tls.rotate has to have for them.
func (w *World) Renewed(code Code, sentence string) Wait {
	begun := 0
	if w.Authorities != nil {
		begun = w.Authorities.Rotate
	}
	if n := w.Want.Rotate; n > begun {
		return Wait{Code: code, Sentence: fmt.Sprintf("%s. By spec.tls.rotate, which is %d, other authorities are made once the daemons tell of themselves", sentence, n)}
	}
	return Wait{
		Code: code, Command: w.patchTLS("rotate", strconv.Itoa(begun+1)),
		Sentence: fmt.Sprintf("%s. Set spec.tls.rotate to %d for other authorities", sentence, begun+1),
	}
}

// goOn writes the next phase where nothing is waited for.
func (a rotation) goOn(asked bool) {
	grace := a.w.Want.RotationGrace
	if a.ByTime && !asked {
		grace = byTimeGrace
	}
	if first := a.first(); !first.IsZero() { // both steps, and what hosts and members need, are over well before
		grace = min(grace, max(0, first.Sub(a.Since)/4))
	}
	for _, h := range a.w.Hosts {
		if h.Outlived && h.Running && !h.Going && !h.OldLeaves {
			a.d.Rotation = &Rotation{Phase: a.Phase, Waits: "all pods are started anew"}
			a.d.Steps = []Step{{Kind: EndPod, N: h.N, Host: h.Name, Why: "the authorities that it was started with have ended"}}
			return
		}
	}
	r := &Rotation{Phase: a.Phase, Waits: a.lacks()}
	if until := a.Since.Add(grace); r.Waits == "" && a.Phase != cluster.RotateDrop && a.w.Now.Before(until) {
		r.Waits, r.Until = "clients have until "+until.UTC().Format(time.RFC3339), until
	}
	a.d.Rotation = r
	switch {
	case r.Waits != "":
	case a.Phase == cluster.RotateTrust:
		a.step(cluster.RotateSign, "all trust both the former authorities and the next ones")
	case a.Phase == cluster.RotateSign:
		a.step(cluster.RotateDrop, "all show certificates of the next authorities")
	case a.Phase == cluster.RotateDrop:
		a.step(cluster.RotateDone, "nobody trusts the former authorities any more")
	}
}

// step writes the next phase, alone: what else is to be done is none of its conditions, since a host that cannot be made would hold up
// the rotation that it waits for. One that nobody asked for becomes the one that is asked for now.
func (a rotation) step(to cluster.RotationPhase, why string) {
	n := a.Rotate
	if a.ByTime {
		n = max(n, a.w.Want.Rotate)
	}
	a.d.Steps = []Step{{Kind: Rotate, Phase: to, Rotate: n, ByTime: a.ByTime && n == a.Rotate, Issuer: a.Issuer, Why: why}}
}

// lacks says for what the present step waits; empty: each host and each member has been seen as it has it. What nobody told
// is not so.
func (a rotation) lacks() string {
	t := a.w.fresh()
	if t == nil || t.Hosts == nil {
		return "the daemons have not told of themselves lately"
	}
	var lacking []string
	lack := func(why string) {
		if why != "" && !slices.Contains(lacking, why) {
			lacking = append(lacking, why)
		}
	}
	known := map[string]bool{}
	for _, h := range a.w.Hosts {
		known[h.Name] = true
		if a.w.idles(h.Name) && (!h.Running || h.Kept) { // nobody runs there, and who starts there has leaves of then
			continue
		}
		lack(a.hostLacks(t, h))
	}
	for _, m := range t.Members {
		if !known[m] {
			lack("nobody knows the host of each member")
		}
	}
	for _, set := range a.w.Intent.VoterSets() {
		for _, v := range set {
			if !known[string(v.Host)] {
				lack(fmt.Sprintf("%s votes, and nothing of it is here", v.Host))
			}
		}
	}
	return strings.Join(lacking, "; ")
}

func (a rotation) hostLacks(t *Told, h Host) string {
	i := slices.IndexFunc(t.Hosts, func(o ToldHost) bool { return o.Name == h.Name })
	switch {
	case !h.Leaves || h.OldLeaves:
		return "the certificates of " + h.Name + " are to be written"
	case i < 0:
		return "the daemons do not hear " + h.Name
	}
	told, signs := t.Hosts[i].Trust, a.Signs
	if a.Phase == cluster.RotateTrust {
		signs = a.Trusts
	}
	switch {
	case told == nil:
		return "the daemon of " + h.Name + " does not tell whom it trusts: it is of an earlier release"
	case !slices.Equal(told.Daemon, a.Trusts):
		return h.Name + " does not have the Secret of its certificates as it is now, which its kubelet brings within two minutes"
	case len(told.Signed) == 0 || slices.ContainsFunc(told.Signed, func(c string) bool { return !slices.Contains(signs, c) }):
		return h.Name + " shows certificates of the former authorities yet"
	case len(told.Member) == 0 && (t.Hosts[i].Carries || a.w.votes(h.Name)):
		return "the member of " + h.Name + " does not run, or nobody knows with which authorities it was started"
	case len(told.Member) > 0 && !slices.Equal(told.Member, a.Member):
		return "the member of " + h.Name + " is to be restarted by the daemons, so that it trusts the authorities of this step"
	}
	return ""
}
