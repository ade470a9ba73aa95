package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const (
	// foundingPatience is how long a majority of the wanted hosts waits for
	// the rest before it founds the cluster without them.
	foundingPatience = 5 * time.Second
	// foundingStalled is how long a founding may stay without a quorum before
	// it is superseded by one of hosts that promise that they never started.
	foundingStalled = 30 * time.Second
	// founderStep is the pause between the starts of two founders, in the
	// first moments of a founding; after founderHaste all that are left are
	// started at once, so that one that cannot start holds nobody up.
	founderStep  = 150 * time.Millisecond
	founderHaste = 2 * time.Second
)

// found makes the first generation, or finishes one that somebody began.
// Joining always comes first: where an intent or a member is in sight, nobody
// founds (SAFETY.md, rule 12).
func found(v *view) *Decision {
	switch {
	case v.intent != nil && v.intent.State == cluster.IntentFounding:
		return v.finishFounding()
	case v.intent != nil || v.seen:
		return nil
	case !v.obs.Store.Read:
		return wait(false, "store-silent", "", "waiting for the backup store: without it nobody knows whether this cluster exists already")
	}
	if d := v.carried(); d != nil {
		return d
	}
	if d := v.needSpec(); d != nil {
		return d
	}
	if d := v.mayFound(); d != nil {
		return d
	}
	hosts, d := v.founders(v.spec.MemberCount)
	if d != nil {
		return d
	}
	in := &cluster.Intent{
		Name: v.obs.Cluster, Generation: 1, Version: v.spec.EtcdVersion,
		Source: cluster.Source{Kind: cluster.SourceNothing}, State: cluster.IntentFounding,
		Founders: asFounders(hosts),
	}
	return &Decision{
		Reason: fmt.Sprintf("no cluster exists and %s ready (%s): write the intent to found one with etcd %s", are(len(hosts), "host"), hostNames(hosts), in.Version),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Create: in}, Command: v.seedCommand()},
	}
}

// carried blocks a founding beside members whose record was lost: their data
// may be this cluster's, and the new one would take its place unasked.
func (v *view) carried() *Decision {
	var carry []string
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; h.Carries() {
			carry = append(carry, fmt.Sprintf("%s: member %s of cluster %s", h.Host, h.Local.Member, h.Local.Cluster))
		}
	}
	if len(carry) == 0 {
		return nil
	}
	return wait(false, "no-intent", "", "hosts hold the data of members, and neither the store nor a host has the record of their founding; no cluster is founded beside them until the store is back or their data directories were moved away%s", because(carry))
}

// needSpec blocks what cannot be done without a spec that makes sense.
func (v *view) needSpec() *Decision {
	switch {
	case v.spec != nil:
		return nil
	case v.obs.Spec != nil:
		return wait(false, "spec-refused", "", "%s", v.obs.Spec.Validate().Error())
	}
	for _, g := range v.obs.Gaps {
		if g.Kind == cluster.GapSpec {
			return wait(false, "spec-refused", "", "%s", g.Detail)
		}
	}
	if n := v.votersKnown(); n > 0 {
		// An even count is one in the middle of a change, which no spec may ask for.
		return wait(false, "no-spec", v.seedLike(min(n|1, cluster.MaxMembers)), "a cluster exists, and the store has no spec of it: make sure first that it is the right store (mount, bucket, prefix), since in an empty one the hosts write their record of the cluster down again, and only the spec is missing; if it is the right one, say anew how many members and which etcd version are wanted")
	}
	return wait(false, "no-spec", v.seedLike(3), "no spec in the store yet: say how many members and which etcd version are wanted")
}

// votersKnown counts the voters of the cluster that the hosts show or have the
// record of; 0: none is known.
func (v *view) votersKnown() int {
	switch {
	case v.seen:
		return len(v.roster.Voters())
	case v.intent == nil:
		return 0
	case len(v.intent.Voters) > 0:
		return len(v.intent.Voters)
	}
	return len(v.intent.Founders)
}

// mayFound blocks a founding that the store cannot keep unique.
func (v *view) mayFound() *Decision {
	if v.obs.Store.Conditional || len(v.spec.Hosts) > 0 {
		return nil
	}
	return wait(false, "store-unconditional", "", "the backup store cannot write on a condition, so two halves of the hosts could found two clusters; name the hosts in a static configuration")
}

func named(hosts []*cluster.HostReport) string {
	if len(hosts) == 0 {
		return ""
	}
	return " (" + hostNames(hosts) + ")"
}

// are counts in words: "1 host is", "3 hosts are".
func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

func versions(vs []cluster.Version) string {
	if len(vs) == 0 {
		return "none"
	}
	var s []string
	for _, v := range vs {
		s = append(s, v.String())
	}
	return strings.Join(s, ", ")
}

func sharesURL(a, b *cluster.HostReport) bool {
	return slices.ContainsFunc(a.URLs.Peer, func(u string) bool { return slices.Contains(b.URLs.Peer, u) })
}

func asFounders(hosts []*cluster.HostReport) []cluster.Founder {
	var out []cluster.Founder
	for _, h := range hosts {
		out = append(out, cluster.Founder{Host: h.Host, Disk: h.Disk, URLs: h.URLs})
	}
	return out
}

// finishFounding starts the founders that have not started, and writes down
// that the cluster is founded once its members serve.
func (v *view) finishFounding() *Decision {
	if v.seen && v.roster.Linearizable && v.roster.HasQuorum() {
		// A store that takes its time does not keep the last founders down.
		if ops, _ := v.unstartedFounders(v.members()); len(ops) > 0 && !v.stalled() {
			p := v.projection(0, len(ops))
			return &Decision{
				Reason: fmt.Sprintf("the founded cluster serves with %d of %d members: start the others", len(v.roster.Up()), len(v.intent.Founders)),
				Again:  soon,
				Action: &Action{Kind: ActHosts, Ops: ops, Projection: &p},
			}
		}
		return v.writeFounded()
	}
	ops, waiting := v.unstartedFounders(nil)
	if len(ops) > 0 {
		if d := v.refoundUntried(ops, waiting); d != nil {
			return d
		}
		if v.foundingFor() < founderHaste {
			if left := v.founderPause(); left > 0 {
				return &Decision{Reason: fmt.Sprintf("found generation %d: start %s a moment after the one before", v.intent.Generation, ops[0].Host), Again: left}
			}
			ops = ops[:1]
		}
		return &Decision{
			Reason: fmt.Sprintf("found generation %d: start its members that have not started", v.intent.Generation),
			Again:  soon,
			Action: &Action{Kind: ActHosts, Ops: ops, Projection: &cluster.Projection{
				Voters: len(v.intent.Founders), Up: len(v.roster.Up()), VotersAfter: len(v.intent.Founders), UpAfter: len(v.roster.Up()) + len(ops)}},
		}
	}
	if d := v.refound(); d != nil {
		return d
	}
	if command, words := v.foundersLost(); words != "" {
		n := len(v.intent.Founders)
		return wait(true, "founding", command, "the founders of generation %d have no quorum, and it may have served before that was written down: waiting until %d of the %d are back%s%s",
			v.intent.Generation, cluster.Quorum(n), n, because(waiting), words)
	}
	return wait(true, "founding", "", "waiting for the founded members to serve%s", because(waiting))
}

// foundersLost is a person's way on when so many founders are out of sight that
// the founding cannot come to a quorum, and so many have started that nobody can
// promise that it never served: its leader may have ended in the moment between.
func (v *view) foundersLost() (command, words string) {
	if !v.stalled() || v.intent.Source.FromData() {
		return "", ""
	}
	var seats []cluster.Seat
	there := 0
	for _, f := range v.intent.Founders {
		s := cluster.Seat{Member: cluster.Member{ID: f.Member}, HostID: f.Host}
		if h, ok := v.obs.Host(f.Host); ok && h.Disk == f.Disk {
			s.Host, there = h, there+1 // with data of the member, or still able to start it
		}
		seats = append(seats, s)
	}
	if there >= cluster.Quorum(len(seats)) {
		return "", ""
	}
	return v.survivorCommand(seats)
}

// refoundUntried supersedes a founding whose founders look as if they could
// start, and do not although they were asked for as long as a founding has. It
// is watched for that time, so that founders which come back long after the
// intent was written are started. Where no other founding is possible they are
// asked on, and a person is told.
func (v *view) refoundUntried(ops []HostOp, waiting []string) *Decision {
	f := v.obs.Memory.Founding
	if f.Since.IsZero() || f.Generation != v.intent.Generation || v.obs.At.Sub(f.Since) < foundingStalled {
		return nil
	}
	for _, o := range ops {
		if m, ok := v.obs.Memory.Host(o.Host); !ok || m.FenceSince.IsZero() || v.obs.At.Sub(m.FenceSince) < foundingStalled {
			return nil // it has just come
		}
	}
	if d := v.refound(); d != nil && d.Action != nil {
		return d
	}
	var asked []string
	for _, o := range ops {
		asked = append(asked, fmt.Sprintf("host %s is asked again and again to start, and does not", o.Host))
	}
	v.aside("founding", "", "generation %d has not come to a quorum for %s%s", v.intent.Generation, v.obs.At.Sub(f.Since).Round(time.Second), because(append(asked, waiting...)))
	return nil
}

// writeFounded writes down that the members of a founding serve.
func (v *view) writeFounded() *Decision {
	if !v.obs.Store.Read {
		return wait(false, "store-silent", "", "the cluster serves; waiting for the backup store to write that down")
	}
	in := v.intent.Clone()
	in.State, in.Cluster, in.Voters = cluster.IntentFounded, v.roster.Cluster, v.votersNow()
	return &Decision{
		Reason: fmt.Sprintf("the founded cluster serves with %d of %d members: write down that it exists", len(v.roster.Up()), len(v.intent.Founders)),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

// founderPause is how long the next founder has to wait for the one that was
// started last. Source: a founder of etcd asks the others at its start who the
// members are, and gives each a second to answer; one that listens already and
// does not serve yet costs that second, one that does not listen costs nothing.
func (v *view) founderPause() time.Duration {
	var left time.Duration
	for _, f := range v.intent.Founders {
		h, ok := v.obs.Host(f.Host)
		if ok && h.Process.State == cluster.ProcessRunning && h.Status == nil && h.Process.Uptime > 0 {
			left = max(left, founderStep-h.Process.Uptime)
		}
	}
	return left
}

// stalled: the founding has had its time.
func (v *view) stalled() bool { return v.foundingFor() >= foundingStalled }

// foundingFor is how long ago the founding was written down. Its time is by the
// clock of whoever wrote it; where that is ahead of this leader's, what the leader
// has watched counts, or a founding would go on for as long as clocks are apart.
func (v *view) foundingFor() time.Duration {
	age := v.obs.At.Sub(time.Unix(0, v.intent.Timestamp))
	if f := v.obs.Memory.Founding; f.Generation == v.intent.Generation && !f.Seen.IsZero() {
		age = max(age, v.obs.At.Sub(f.Seen))
	}
	return age
}

// unstartedFounders are start ops for founders in sight that never started.
// Once a member list is in sight it must still list them: listed.
func (v *view) unstartedFounders(listed []cluster.Member) (ops []HostOp, waiting []string) {
	if v.intent.Source.FromData() {
		return nil, nil // its one founder was started before it was called founded, or never
	}
	all := founderMembers(v.intent)
	for _, f := range v.intent.Founders {
		h, ok := v.obs.Host(f.Host)
		switch {
		case !ok:
			waiting = append(waiting, fmt.Sprintf("host %s is not in sight", f.Host))
		case h.Disk != f.Disk:
			waiting = append(waiting, fmt.Sprintf("host %s has another disk than the one that was to found", f.Host))
		case !h.UnderFence:
			waiting = append(waiting, fmt.Sprintf("host %s has not promised this leader's fence", f.Host))
		case h.LowestGeneration > v.intent.Generation:
			waiting = append(waiting, fmt.Sprintf("host %s refuses generation %d", f.Host, v.intent.Generation))
		case h.Local.State == cluster.MemberNone || h.Local.State == cluster.MemberPrepared:
			if listed != nil && !slices.ContainsFunc(listed, func(m cluster.Member) bool { return m.ID == f.Member }) {
				continue
			}
			if why := v.cannotFound(f, h); why != "" {
				waiting = append(waiting, fmt.Sprintf("host %s %s", f.Host, why))
				continue
			}
			members := all
			if listed != nil {
				members = listed
			}
			ops = append(ops, onHost(h, cluster.Guard{}, cluster.Op{
				Kind: cluster.OpStart, Host: f.Host, Founding: true, Generation: v.intent.Generation, Nonce: v.intent.Nonce,
				Token: v.intent.Token, Cluster: v.intent.Cluster, Member: f.Member, Members: members, Version: v.intent.Version,
			}))
		case h.Status == nil || !h.Status.Healthy:
			waiting = append(waiting, fmt.Sprintf("the member of host %s does not serve yet: its process is %s", f.Host, processWords(h.Process)))
		}
	}
	return ops, waiting
}

// cannotFound says why the host would refuse to start as the founder that it
// is; empty: it would start. What it refuses is not asked of it again and again:
// in a cluster that runs already, its place is taken by another one.
func (v *view) cannotFound(f cluster.Founder, h *cluster.HostReport) string {
	switch p := problem(h); {
	case p != "":
		return p
	case len(h.Foreign) > 0:
		return holdsForeign(h)
	case !slices.Equal(sorted(f.URLs.Peer), sorted(h.URLs.Peer)):
		return fmt.Sprintf("is now at %s, and was to found at %s", strings.Join(h.URLs.Peer, ", "), strings.Join(f.URLs.Peer, ", "))
	case !v.intent.Version.IsZero() && !h.CanRun(v.intent.Version):
		return fmt.Sprintf("has no etcd %s, only %s", v.intent.Version, versions(h.Releases))
	}
	return ""
}

// problem is what the host says that keeps it from carrying a member, to go on with
// after its name: most of its sentences begin with that.
func problem(h *cluster.HostReport) string {
	for _, p := range h.Problems {
		if !p.Unfit {
			continue
		}
		if is, named := strings.CutPrefix(p.Sentence, "host "+string(h.Host)+" "); named {
			return is
		}
		return "says: " + p.Sentence
	}
	return ""
}

func processWords(p cluster.Process) string { return p.Words() }

func founderMembers(in *cluster.Intent) []cluster.Member {
	var out []cluster.Member
	for _, f := range in.Founders {
		out = append(out, cluster.Member{ID: f.Member, Name: string(f.Host), PeerURLs: f.URLs.Peer, ClientURLs: f.URLs.Client})
	}
	return out
}

func founderVoters(in *cluster.Intent) []cluster.Voter {
	var out []cluster.Voter
	for _, f := range in.Founders {
		out = append(out, cluster.Voter{Host: f.Host, Disk: f.Disk, Member: f.Member, PeerURLs: f.URLs.Peer})
	}
	return out
}
