package generation

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

const (
	// foundingPatience is how long a majority of the wanted hosts waits for
	// the rest before it founds the cluster without them.
	foundingPatience = 5 * time.Second
	// FounderStep is the pause between the starts of two founders, in the
	// first moments of a founding; after founderHaste all that are left are
	// started at once, so that one that cannot start holds nobody up.
	FounderStep  = 150 * time.Millisecond
	founderHaste = 2 * time.Second
)

// Found makes the first generation, or finishes one that somebody began.
// Joining always comes first: where an intent or a member is in sight, nobody
// founds (SAFETY.md, rule 12).
func Found(v *step.View) *decision.Decision {
	switch {
	case v.Intent != nil && v.Intent.State == cluster.IntentFounding:
		return finishFounding(v)
	case v.Intent != nil || v.Seen:
		return nil
	case !v.Obs.Store.Read:
		return decision.Wait(false, "store-silent", "", "waiting for the backup store: without it nobody knows whether this cluster exists already")
	}
	if d := carried(v); d != nil {
		return d
	}
	if d := toRestore(v); d != nil {
		return d
	}
	if d := step.NeedSpec(v); d != nil {
		return d
	}
	if d := mayFound(v); d != nil {
		return d
	}
	hosts, d := founders(v, v.Spec.MemberCount)
	if d != nil {
		return d
	}
	in := &cluster.Intent{
		Name: v.Obs.Cluster, Generation: 1, Version: v.Spec.EtcdVersion,
		Source: cluster.Source{Kind: cluster.SourceNothing}, State: cluster.IntentFounding,
		Founders: sight.AsFounders(hosts),
	}
	return &decision.Decision{
		Reason: words.F("no cluster exists and {count} ready ({hosts}): write the intent to found one with etcd {release}", words.Are(len(hosts), "host"), words.HostNames(hosts), in.Version),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Create: in}, Command: step.SeedCommand(v)},
	}
}

// toRestore keeps a cluster from beginning empty that is to begin with data, where no command
// asks for that any more: a person says with what instead.
func toRestore(v *step.View) *decision.Decision {
	o := v.Obs.Store.Origin
	if o == nil {
		return nil
	}
	why := words.F("no restore of it is queued")
	if o.Ended != "" {
		why = words.F("its restore was {ended}", o.Ended)
	}
	d := decision.Wait(false, "origin", "", "the cluster is to begin with {origin}, and {why}; no empty one is founded in its place", o.String(), why)
	d.Blockers[0].Advice = "begin it on the host where etcdadm init was run, with another backup (etcdadm init --from-backup FILE or NAME) or empty (etcdadm init --empty)"
	return d
}

// mayFound blocks a founding that the store cannot keep unique.
func mayFound(v *step.View) *decision.Decision {
	if v.Obs.Store.Conditional || len(v.Spec.Hosts) > 0 {
		return nil
	}
	return decision.Wait(false, "store-unconditional", "", "the backup store cannot write on a condition, so two halves of the hosts could found two clusters; name the hosts in a static configuration")
}

// finishFounding starts the founders that have not started, and writes down
// that the cluster is founded once its members serve.
func finishFounding(v *step.View) *decision.Decision {
	if v.Seen && v.Roster.Linearizable && v.Roster.HasQuorum() {
		// A store that takes its time does not keep the last founders down.
		if ops, _ := UnstartedFounders(v, v.Members()); len(ops) > 0 && !v.Stalled() {
			p := v.Projection(0, len(ops))
			return &decision.Decision{
				Reason: words.F("the founded cluster serves with {up} of {founders} members: start the others", len(v.Roster.Up()), len(v.Intent.Founders)),
				Again:  decision.Soon,
				Action: &decision.Action{Kind: decision.ActHosts, Ops: ops, Projection: &p},
			}
		}
		return writeFounded(v)
	}
	ops, waiting := UnstartedFounders(v, nil)
	if len(ops) > 0 {
		if d := RefoundUntried(v, ops, waiting); d != nil {
			return d
		}
		if v.FoundingFor() < founderHaste {
			if left := FounderPause(v); left > 0 {
				return &decision.Decision{Reason: words.F("found generation {generation}: start {host} a moment after the one before", v.Intent.Generation, ops[0].Host), Again: left}
			}
			ops = ops[:1]
		}
		return &decision.Decision{
			Reason: words.F("found generation {generation}: start the members that have not started", v.Intent.Generation),
			Again:  decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Ops: ops, Projection: &cluster.Projection{
				Voters: len(v.Intent.Founders), Up: len(v.Roster.Up()), VotersAfter: len(v.Intent.Founders), UpAfter: len(v.Roster.Up()) + len(ops)}},
		}
	}
	if d := refound(v); d != nil {
		return d
	}
	if command, says := foundersLost(v); !says.IsZero() {
		n := len(v.Intent.Founders)
		return decision.Wait(true, "founding", command, "the founders of generation {generation} have no quorum, and it may have served before that was written down: waiting until {quorum} of the {number} are back{because}{says}",
			v.Intent.Generation, cluster.Quorum(n), n, words.Because(waiting), says)
	}
	return decision.Wait(true, "founding", "", "waiting for the founded members to serve{because}", words.Because(waiting))
}

// foundersLost is a person's way on when so many founders are out of sight that
// the founding cannot come to a quorum, and so many have started that nobody can
// promise that it never served: its leader may have ended in the moment between.
func foundersLost(v *step.View) (command string, says words.Text) {
	if !v.Stalled() || v.Intent.Source.FromData() {
		return "", says
	}
	var seats []cluster.Seat
	there := 0
	for _, f := range v.Intent.Founders {
		s := cluster.Seat{Member: cluster.Member{ID: f.Member}, HostID: f.Host}
		if h, ok := v.Obs.Host(f.Host); ok && h.Disk == f.Disk {
			s.Host, there = h, there+1 // with data of the member, or still able to start it
		}
		seats = append(seats, s)
	}
	if there >= cluster.Quorum(len(seats)) {
		return "", says
	}
	return survivorCommand(v, seats)
}

// RefoundUntried supersedes a founding whose founders look as if they could
// start, and do not although they were asked for as long as a founding has. It
// is watched for that time, so that founders which come back long after the
// intent was written are started. Where no other founding is possible they are
// asked on, and a person is told.
func RefoundUntried(v *step.View, ops []decision.HostOp, waiting []string) *decision.Decision {
	f := v.Obs.Memory.Founding
	if f.Since.IsZero() || f.Generation != v.Intent.Generation || v.Obs.At.Sub(f.Since) < sight.FoundingStalled {
		return nil
	}
	for _, o := range ops {
		if m, ok := v.Obs.Memory.Host(o.Host); !ok || m.FenceSince.IsZero() || v.Obs.At.Sub(m.FenceSince) < sight.FoundingStalled {
			return nil // it has just come
		}
	}
	if d := refound(v); d != nil && d.Action != nil {
		return d
	}
	var asked []string
	for _, o := range ops {
		asked = append(asked, fmt.Sprintf("host %s is asked again and again to start, and does not", o.Host))
	}
	v.Notice("founding", "", "generation {generation} has not come to a quorum for {lasted}{because}", v.Intent.Generation, v.Obs.At.Sub(f.Since).Round(time.Second), words.Because(append(asked, waiting...)))
	return nil
}

// FounderPause is how long the next founder has to wait for the one that was
// started last. Source: a founder of etcd asks the others at its start who the
// members are, and gives each a second to answer; one that listens already and
// does not serve yet costs that second, one that does not listen costs nothing.
func FounderPause(v *step.View) time.Duration {
	var left time.Duration
	for _, f := range v.Intent.Founders {
		h, ok := v.Obs.Host(f.Host)
		if ok && h.Process.State == cluster.ProcessRunning && h.Status == nil && h.Process.Uptime > 0 {
			left = max(left, FounderStep-h.Process.Uptime)
		}
	}
	return left
}
