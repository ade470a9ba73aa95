package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/duration"
)

// Why has the pod of this host not been replaced? roll is all that there is to it; docs/adr/041-rolls-of-pods.md has the
// schedules that it was made against.
const (
	// Asker is whom the daemons name as who asked for a pause of the operator's. Nothing is done by it.
	Asker = "the operator"
	// PauseFor is how long a host may be away from when it is let go: its pod ends within 200 s, and another one starts.
	PauseFor = 10 * time.Minute
	// recent is how old the word may be by which a host is stopped.
	recent = 15 * time.Second
	// steady is how long a host without a voter runs before it counts as back.
	steady = 30 * time.Second
	// Slow is how long a pod may need to start its container, and then a voter to serve.
	Slow = 2 * time.Minute
)

// Turns of hosts, in their order. The first one that is up and changed is the canary.
const (
	setOnly = iota // its pod is as wanted: nothing is taken away
	isDown         // it serves nothing: likewise
	bare           // without a member
	follows        // with a voter
	leads          // with raft's leader
	unheard        // nobody knows
)

// roll replaces pods that were made by another template than is wanted, one host at a time. A host with a member is
// stopped by a pause alone, which the daemons grant; the next one follows when it is back.
func (w *World) roll(d *Decision) {
	if w.Pause != nil {
		w.goOn(d)
		return
	}
	waiting := w.Behind()
	if len(waiting) == 0 {
		return
	}
	var names []string
	for _, h := range waiting {
		names = append(names, h.Name)
	}
	next := slices.MinFunc(waiting, func(a, b Host) int { return cmp.Or(cmp.Compare(w.turn(a), w.turn(b)), cmp.Compare(a.N, b.N)) })
	turn := w.turn(next)
	if turn > isDown && w.young() {
		return // they tell by themselves, and nothing is in the way
	}
	var held *Wait
	switch turn {
	case setOnly:
	case isDown:
		held = w.beside(next)
	case unheard:
		held = &Wait{Code: RollHeld, Host: next.Name, Sentence: "the daemons do not hear " + next.Name, Command: w.Describe(next.Name)}
	default:
		held = w.unsettled()
	}
	switch {
	case held != nil:
		held.Sentence = fmt.Sprintf("%s: other pods are wanted, and those that are there stay yet: %s", strings.Join(names, ", "), held.Sentence)
		d.Waits = append(d.Waits, *held)
	case turn == follows || turn == leads:
		w.ask(d, next, "another pod is wanted")
	default:
		w.change(d, next)
	}
}

// goOn goes on with the host whose pause is open.
func (w *World) goOn(d *Decision) {
	p := w.Pause
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == p.Host })
	if i < 0 || !w.runs(w.Hosts[i]) {
		w.endPause(d, "the host is not to run any more")
		return
	}
	h, t := w.Hosts[i], w.fresh()
	held := w.unsettled()
	if held == nil && h.behind() && w.down(h) {
		held = &Wait{Code: Rolling, Host: h.Name, Sentence: h.Name + " does not serve, and needs no word"}
	}
	switch {
	case h.Going:
		d.Waits = append(d.Waits, Wait{Code: Rolling, Host: h.Name, Sentence: h.Name + " gets another pod, and the former one is ending", Command: w.Describe(h.Name)})
	case !h.behind() && w.back(h):
		w.endPause(d, "the host is back")
		d.wait(Rolling, h.Name+" is back")
	case !h.behind():
		d.Waits = append(d.Waits, *w.awaited(h))
	case held != nil:
		w.endPause(d, "the host is not stopped now: "+held.Sentence)
		d.Waits = append(d.Waits, *held)
	case p.Asked.IsZero():
		w.ask(d, h, "another operator asked for the pause that there is, and when is not known")
	case passed(p.Asked, w.Now) >= p.For/2:
		w.ask(d, h, "half the time of its pause is over")
	case !slices.Contains(t.MayGo, p.ID):
		why := cmp.Or(t.Stays[h.Name], "they have not said yet whether it may go")
		d.wait(Rolling, h.Name+" is to get another pod, once the daemons let it go: "+why)
	case w.current() == nil:
		d.wait(Rolling, h.Name+" may go; that is to be told once more, within 15 s")
	default:
		w.change(d, h)
	}
}

// young: no word of the daemons counts yet, since the EtcdCluster was made a moment ago. Its hosts may have run for long.
func (w *World) young() bool { return w.fresh() == nil && w.Now.Sub(w.Since) <= Fresh }

// letBe ends the pause of a host that stands, of a cluster in which nothing is to be done.
func (w *World) letBe(d *Decision) {
	if w.Pause == nil {
		return
	}
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == w.Pause.Host })
	if i < 0 || !w.runs(w.Hosts[i]) || !w.Hosts[i].behind() && w.back(w.Hosts[i]) || w.Hosts[i].behind() && !w.Hosts[i].Going {
		w.endPause(d, "nobody is to be stopped now")
	}
}

// endPause ends the operator's pause, as soon as nobody can stop its host by it any more.
func (w *World) endPause(d *Decision, why string) {
	step := Step{Kind: EndPause, Host: w.Pause.Host, Why: why}
	if w.Pause.Loose {
		step.Kind = KeepPod
	}
	for _, h := range w.Hosts {
		if h.Name == step.Host {
			step.N = h.N
		}
	}
	d.do(step)
}

// ask asks for a pause, in place of another one that there may be.
func (w *World) ask(d *Decision, h Host, why string) {
	if w.Pause != nil && w.Pause.Loose {
		w.endPause(d, why)
		d.wait(Rolling, h.Name+" is to be asked for anew: "+why)
		return
	}
	d.do(Step{Kind: AskPause, N: h.N, Host: h.Name, Outage: len(w.Intent.Voters) == 1 && w.votes(h.Name), Why: why})
	d.wait(Rolling, h.Name+" is to get another pod: the daemons are asked to let it go")
}

// change takes something away, and is alone.
func (w *World) change(d *Decision, h Host) {
	d.Steps = []Step{{Kind: RollHost, N: h.N, Host: h.Name, Evict: h.behind() && !w.down(h), Why: "another pod is wanted"}}
	d.wait(Rolling, h.Name+" gets another pod")
}

// behind: the pod that it has, or would get, was made by another template than is wanted.
func (h Host) behind() bool {
	if h.Pod {
		return h.OldPod
	}
	return h.OldSet
}

func (w *World) runs(h Host) bool { return h.Set && h.Running && !w.retired(h) }

// turn is when a host is changed, among others.
func (w *World) turn(h Host) int {
	_, heard, _ := w.Hears(h.Name)
	switch {
	case !h.behind():
		return setOnly
	case w.down(h):
		return isDown
	case w.votes(h.Name) && w.fresh() != nil && w.fresh().Leads == h.Name:
		return leads
	case w.votes(h.Name):
		return follows
	case !heard:
		return unheard
	}
	return bare
}

// current are the daemons' words if they were told just now, by the operator's clock and about theirs; nil: they were not. A
// write that was held up on its way is told by the second alone.
func (w *World) current() *Told {
	t := w.fresh()
	if t == nil || t.After.IsZero() || passed(t.After, w.Now) > recent || w.Now.Sub(t.At) > Ahead {
		return nil
	}
	return t
}

// down: the host gives the cluster nothing. By its kubelet no container of it runs, and the daemons do not count its member
// as up; where none of the cluster runs nobody can tell that. Or it has run for longer than a voter needs and does not serve:
// then all others are up without it, or most are not, whatever it does.
func (w *World) down(h Host) bool {
	t := w.fresh()
	up := func(name string) bool { return slices.Contains(t.Up, name) }
	switch {
	case !h.Pod || h.Stuck != "":
		return !w.anyRuns() || t != nil && !up(h.Name)
	case !w.votes(h.Name) || h.Serves || h.Runs.IsZero() || passed(h.Runs, w.Now) <= Slow || t == nil || up(h.Name):
		return false
	}
	serving := 0
	for _, v := range w.Intent.Voters {
		if up(string(v.Host)) {
			serving++
		}
	}
	return serving == len(w.Intent.Voters)-1 || serving <= len(w.Intent.Voters)/2
}

func (w *World) anyRuns() bool {
	return slices.ContainsFunc(w.Hosts, func(o Host) bool { return !o.Runs.IsZero() })
}

// back: it serves, where it has a voter. Else it runs for a while, and is heard.
func (w *World) back(h Host) bool {
	if w.votes(h.Name) {
		return h.Serves
	}
	_, heard, _ := w.Hears(h.Name)
	return heard && !h.Runs.IsZero() && passed(h.Runs, w.Now) >= steady
}

// unsettled says why no host that is up is stopped now; nil: one may be.
func (w *World) unsettled() *Wait {
	held := func(sentence string) *Wait { return &Wait{Code: RollHeld, Sentence: sentence} }
	t, in := w.fresh(), w.Intent
	switch {
	case t == nil:
		return held("the daemons have not told of themselves lately")
	case w.PausesUnread != "":
		return held("it cannot be read which hosts are paused: " + w.PausesUnread)
	case w.OthersPause != "":
		return &Wait{Code: RollHeld, Host: w.OthersPause, Sentence: "host " + w.OthersPause + " is paused by somebody else, or is to be", Command: "etcdadm host resume " + w.OthersPause}
	case in == nil || in.State != cluster.IntentFounded || len(in.Next) > 0 || len(in.Pending) > 0 || w.moves(w.names()):
		return held("a change of the voters is under way")
	case w.Spec == nil || len(in.Voters) != w.Spec.MemberCount:
		return held("not as many members vote as are to")
	case !t.AllUp:
		return w.notUp(t)
	case w.Full:
		return &Wait{Code: RollHeld, Sentence: "pods are replaced in as many other clusters as may be at once. This one follows; those that do not go on themselves show RollHeld", Command: "kubectl get etcdclusters.etcdadm.io -A"}
	}
	for _, h := range w.Hosts {
		switch {
		case !w.runs(h):
		case h.Going:
			return w.ending(h)
		case h.Loses != "":
			return &Wait{Code: RollHeld, Host: h.Name, Sentence: fmt.Sprintf("%s runs etcd %s, which is not in spec.releases any more, and is to run %s. It goes on when the daemons have changed the version; where they say no-release, put %[2]s back into spec.releases until then", h.Name, h.Loses, w.Want.Spec.EtcdVersion)}
		case !h.behind() && !w.back(h):
			return w.awaited(h)
		}
	}
	return nil
}

// notUp says why the roll waits while not all voters are up by what is told: it goes on by itself where each that is not serves by
// Kubernetes, for so short a time that nobody can have told of it.
func (w *World) notUp(t *Told) *Wait {
	back := ""
	for _, v := range w.Intent.Voters {
		if slices.Contains(t.Up, string(v.Host)) {
			continue
		}
		i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == string(v.Host) })
		if i < 0 || !w.Hosts[i].Ready || w.Hosts[i].ReadySince.IsZero() || passed(w.Hosts[i].ReadySince, w.Now) > Soon {
			return &Wait{Code: RollHeld, Sentence: "not all voters are up"}
		}
		back = string(v.Host)
	}
	return &Wait{Code: Rolling, Host: back, Sentence: back + " serves by its pod, and the daemons are to tell that it is up, which they do within " + duration.Format(Soon)}
}

// beside says why a host that is down is not changed now; nil: it may be. One after the other is: a new pod whose container does
// not run keeps the next one, and beside one that runs its time is waited for, too. What says that the host is down is told
// anew, for it may have come up since, unheard.
func (w *World) beside(next Host) *Wait {
	for _, h := range w.Hosts {
		switch {
		case !w.runs(h) || h.N == next.N:
		case !h.behind() && (h.Runs.IsZero() || !next.Runs.IsZero() && !w.back(h) && passed(h.Runs, w.Now) <= Slow):
			return w.awaited(h)
		case h.Going && !next.Runs.IsZero():
			return w.ending(h)
		}
	}
	if w.anyRuns() && w.current() == nil {
		return &Wait{Code: Rolling, Host: next.Name, Sentence: next.Name + " does not serve: the daemons are to tell that once more, which they do every five minutes", Command: w.Describe(next.Name)}
	}
	return nil
}

// awaited says of a host with a new pod that it is not back.
func (w *World) awaited(h Host) *Wait {
	out := &Wait{Code: Rolling, Host: h.Name, Sentence: h.Name + " has its new pod, and is not back yet", Command: w.Describe(h.Name)}
	const way = ". No other host follows. Mend what is missing, or put the spec back, which takes this one back"
	switch {
	case h.Stuck != "":
		out.Code, out.Sentence = RollHeld, fmt.Sprintf("%s has its new pod, which does not run (%s)%s", h.Name, h.Why(), way)
	case !h.Runs.IsZero() && passed(h.Runs, w.Now) > Slow:
		out.Code, out.Sentence = RollHeld, h.Name+" has its new pod, which runs, and does not serve"+way
	}
	return out
}

func (w *World) ending(h Host) *Wait {
	return &Wait{Code: RollHeld, Host: h.Name, Sentence: "pod " + h.Name + "-0 is ending", Command: w.Describe(h.Name)}
}

// passed is the time since a moment, the longer one of two clocks: the monotonic clock stops while a machine is suspended, and
// the wall clock can be set back.
func passed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
