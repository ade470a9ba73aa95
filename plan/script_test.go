package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
)

// TestScenarios runs the scenario files, which are the planner's
// specification. Regenerate them with -rewrite and read the difference.
//
// Commands that print:
//
//	plan [goal=KIND host=H member=ID by=H hold no-store no-backup acted alarm=KIND accept-difference]   the decision on the world as it is
//	run [N] [goal…] [handover]                     decide and act until nothing happens any more, or N actions;
//	                                               handover: another leader takes over after every action
//	goal=pause host=H for=D [reason=WORD] [force], goal=resume host=H
//	goal=restart-anyway host=H [reason=WORD]
//	goal=auto-manage [on], goal=apply rule=R [shown=WORD]
//	slow                                           decide on an action that is under way until: lands
//	waits                                          what each command of the queue waits for
//	asides                                         what becomes of everything that is set aside
//	show                                           what the members, hosts and intent are
//
// A block may hold several commands, one a line.
//
// The others change the world; see faults in faults_test.go. Every decision
// on the way is checked against the laws, too.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runScenario(t, path) })
	}
}

func runScenario(t *testing.T, path string) {
	w := newWorld()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		out := w.command(t, d)
		for line := range strings.Lines(d.Input) {
			more := &datadriven.TestData{Pos: d.Pos, Rewrite: d.Rewrite}
			var err error
			if more.Cmd, more.CmdArgs, err = datadriven.ParseLine(strings.TrimSpace(line)); err != nil {
				d.Fatalf(t, "%v", err)
			}
			if more.Cmd != "" {
				out += w.command(t, more)
			}
		}
		return out
	})
}

func (w *world) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "reset":
		*w = *newWorld()
		return ""
	case "plan":
		o := w.observe()
		goal := goalOf(t, d).Noted(o)
		dec := Next(goal, o)
		return describe(dec) + lawsKept(t, d, goal, o, dec)
	case "run":
		return w.script(t, d)
	case "show":
		return w.show()
	case "queue":
		return w.queueCommand(t, d)
	case "backup":
		return w.addBackup(d)
	case "room":
		mib, _ := strconv.ParseInt(d.CmdArgs[1].Key, 10, 64)
		w.host(cluster.HostID(d.CmdArgs[0].Key)).FreeSpace = mib << 20
		return ""
	case "aside-size":
		mib, _ := strconv.ParseInt(d.CmdArgs[1].Key, 10, 64)
		h := w.host(cluster.HostID(d.CmdArgs[0].Key))
		for i := range h.SetAside {
			h.SetAside[i].Bytes = mib << 20
		}
		return ""
	case "needs":
		mib, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		w.queue.needs = mib << 20
		return ""
	case "key":
		w.host(cluster.HostID(d.CmdArgs[0].Key)).Decrypts = true
		return ""
	case "pauses":
		what := d.CmdArgs[0].Key
		w.pauses.unread, w.pauses.damaged = what == "unread", what == "damaged"
		if what == "lost" {
			w.pauses.lost, w.pauses.stored = true, nil
		}
		return ""
	case "origin":
		if w.store.origin = nil; d.CmdArgs[0].Key != "none" {
			w.store.origin = &cluster.Origin{Backup: d.CmdArgs[0].Key}
			d.MaybeScanArgs(t, "ended", &w.store.origin.Ended)
		}
		return ""
	case "manual":
		w.manual.stored, w.manual.unread = &cluster.Manual{Since: w.now, By: "root@shell"}, d.HasArg("unread")
		if w.manual.unread {
			w.manual = worldManual{unread: true}
		}
		return ""
	case "waits":
		o := w.observe()
		var out strings.Builder
		for _, q := range generation.Queue(o, Next(goalOf(t, d), o)) {
			fmt.Fprintf(&out, "%s (%s): %s; running: %t; waits for: %s\n", q.Command, q.Kind, q.What, q.Running, q.For)
		}
		for _, s := range generation.Progress(o) {
			fmt.Fprintf(&out, "  %-4s  %s\n", s.State, s.What)
		}
		return out.String()
	case "interval":
		w.queue.interval, _ = time.ParseDuration(d.CmdArgs[0].Key)
		return ""
	case "broken":
		w.queue.broken = map[cluster.HostID]string{cluster.HostID(d.CmdArgs[0].Key): "it could not be built"}
		return ""
	case "mended":
		w.queue.broken = nil
		return ""
	case "auth-on":
		w.auth = true
		return ""
	case "slow-stages":
		w.queue.slow = true
		return ""
	case "stages-end":
		w.stagesEnd()
		return ""
	case "queue-keeps":
		w.queue.keeps = true
		return ""
	case "unserved":
		w.queue.unserved = "it does not start on the data"
		return ""
	case "served":
		w.queue.unserved = ""
		return ""
	case "loses":
		w.queue.loses = d.CmdArgs[0].Key
		return ""
	case "unlisted":
		w.queue.unlisted = !w.queue.unlisted
		return ""
	case "drills":
		w.queue.drills, _ = time.ParseDuration(d.CmdArgs[0].Key)
		return ""
	case "unqueue":
		w.queue.commands = nil
		return ""
	case "slow":
		dec := Next(goalOf(t, d), w.observe())
		w.underWay = dec.Action
		return describe(dec)
	case "lands":
		if err := w.act(w.underWay); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return ""
	case "asides":
		return w.asides()
	case "show-authorities":
		return w.showAuthorities()
	case "ended":
		return strings.Join(w.queue.ended, "\n") + "\n"
	}
	return w.fault(t, d)
}

// lawsKept fails the test for every broken law; while rewriting, it only
// says so in the file.
func lawsKept(t *testing.T, d *datadriven.TestData, g decision.Goal, o *cluster.Observation, dec decision.Decision) string {
	t.Helper()
	var b strings.Builder
	for _, broken := range brokenLaws(g, o, dec) {
		fmt.Fprintf(&b, "  LAW BROKEN: %s\n", broken)
		if !d.Rewrite {
			t.Errorf("%s: %s", d.Pos, broken)
		}
	}
	return b.String()
}

func goalOf(t *testing.T, d *datadriven.TestData) decision.Goal {
	t.Helper()
	g := decision.Goal{Kind: decision.Converge, Hold: d.HasArg("hold"), NoStore: d.HasArg("no-store"), Acted: d.HasArg("acted")}
	var kind, host, member string
	d.MaybeScanArgs(t, "goal", &kind)
	d.MaybeScanArgs(t, "host", &host)
	if d.MaybeScanArgs(t, "member", &member) {
		id, err := cluster.ParseMemberID(member)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		g.Member = id
	}
	if kind != "" {
		g.Kind = decision.GoalKind(kind)
	}
	g.Host = cluster.HostID(host)
	g.NoBackup = d.HasArg("no-backup")
	var by string
	d.MaybeScanArgs(t, "by", &by)
	g.By = cluster.HostID(by)
	d.MaybeScanArgs(t, "alarm", &g.Alarm)
	g.AcceptDifference = d.HasArg("accept-difference")
	if g.Kind == decision.Pause {
		g.Pause = pauseOf(t, d)
	}
	if g.Kind == decision.RotateAuthorities {
		g.Rotate = &decision.RotateAsked{Until: cluster.RotateTrust, Undo: d.HasArg("undo"), Begin: d.HasArg("begin")}
		for _, until := range []cluster.RotationPhase{cluster.RotateSign, cluster.RotateDrop} {
			if d.HasArg(string(until)) {
				g.Rotate.Until = until
			}
		}
	}
	if g.Kind == decision.AutoManage {
		g.Manage = manageOf(t, d)
	}
	d.MaybeScanArgs(t, "rule", &g.Rule)
	d.MaybeScanArgs(t, "shown", &g.Shown)
	if g.Kind == decision.RestartAnyway {
		d.MaybeScanArgs(t, "reason", &g.Reason)
	}
	return g
}

// describe prints a decision for people who review the scenario files.
func describe(d decision.Decision) string {
	var b strings.Builder
	state := ""
	switch {
	case d.Refused:
		state = " (refused)"
	case d.Done:
		state = " (done)"
	case d.Again > 0:
		state = fmt.Sprintf(" (again in %s)", d.Again)
	}
	fmt.Fprintf(&b, "%s%s: %s\n", d.Rule, state, d.Reason)
	if a := d.Action; a != nil {
		fmt.Fprintf(&b, "  action: %s\n", describeAction(a))
		if a.Projection != nil {
			fmt.Fprintf(&b, "  voters: %s\n", a.Projection)
		}
		if a.Command != "" {
			fmt.Fprintf(&b, "  command: %s\n", a.Command)
		}
	}
	for _, x := range d.Blockers {
		sentence := ": " + x.Sentence.String()
		if x.Sentence.String() == d.Reason.String() {
			sentence = ""
		}
		fmt.Fprintf(&b, "  blocker %s%s\n", x.Code, sentence)
		if x.Command != "" {
			fmt.Fprintf(&b, "    lifted by: %s\n", x.Command)
		}
		if x.Advice != "" {
			fmt.Fprintf(&b, "    advice: %s\n", x.Advice)
		}
	}
	return b.String()
}

func describeAction(a *decision.Action) string {
	if a.Kind != decision.ActIntent {
		return a.String()
	}
	in, verb := a.Intent.Replace, "replace"
	if in == nil {
		in, verb = a.Intent.Create, "create"
	}
	if a.Intent.Keep != nil {
		in, verb = a.Intent.Keep, "hosts keep"
	}
	return fmt.Sprintf("%s the intent: %s", verb, describeIntent(in))
}

func describeIntent(in *cluster.Intent) string {
	if in == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d", in.Generation)
	if in.Nonce == "" {
		b.WriteString(" new")
	}
	if in.Source.FromData() {
		fmt.Fprintf(&b, " from %s", generation.SourceWords(in.Source))
	}
	for _, g := range in.History {
		if !g.Closed {
			fmt.Fprintf(&b, " open %d", g.Generation)
		}
	}
	if in.Quarantined {
		b.WriteString(" quarantined")
	}
	if halt := in.Halt; halt != nil && halt.Ended != "" {
		fmt.Fprintf(&b, " (halt %s ended: %s)", halt.ID, halt.Ended)
	} else if halt != nil {
		fmt.Fprintf(&b, " (halt %s)", halt.ID)
	}
	fmt.Fprintf(&b, " %s", in.State)
	if in.State == cluster.IntentFounding {
		b.WriteString(" founders")
		for _, f := range in.Founders {
			fmt.Fprintf(&b, " %s/%s", f.Host, f.Disk)
		}
	}
	fmt.Fprintf(&b, " voters [%s]", voterNames(in.Voters))
	if in.Next != nil {
		fmt.Fprintf(&b, " next [%s]", voterNames(in.Next))
	}
	if r := in.Rotation; r != nil {
		fmt.Fprintf(&b, " rotation %s %s", r.ID, r.Phase)
		if r.Undo {
			b.WriteString(" undo")
		}
		if !r.Over() {
			fmt.Fprintf(&b, " until %s", r.Until)
		}
	}
	if r := in.Replacing; r != nil {
		fmt.Fprintf(&b, " replacing %s=%s of %d", r.Host, r.Member, r.Voters)
	}
	for _, c := range in.Pending {
		sign := "+"
		if c.Remove {
			sign = "-"
		}
		fmt.Fprintf(&b, " pending %s%s=%s", sign, c.Voter.Host, c.Voter.Member)
	}
	return b.String()
}

func voterNames(vs []cluster.Voter) string {
	var names []string
	for _, v := range vs {
		names = append(names, fmt.Sprintf("%s=%s", v.Host, v.Member))
	}
	return strings.Join(names, " ")
}

const (
	mostActions = 120              // more in one run is oscillation
	quietFor    = 20 * time.Second // nothing happened for so long: steady
)

func (w *world) script(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	goal, limit, handover := goalOf(t, d), mostActions, d.HasArg("handover")
	for _, a := range d.CmdArgs {
		if n, err := strconv.Atoi(a.Key); err == nil {
			limit = n
		}
	}
	var b strings.Builder
	last, err := w.run(goal, limit, handover, func(o *cluster.Observation, dec decision.Decision, err error) {
		b.WriteString(lawsKept(t, d, goal, o, dec))
		if dec.Action == nil {
			return
		}
		fmt.Fprintf(&b, "%-16s %s\n", dec.Rule, describeAction(dec.Action))
		if odd := w.mistrust(); odd != "" {
			t.Errorf("%s: after %s: %s", d.Pos, describeAction(dec.Action), odd)
		}
		if err != nil {
			fmt.Fprintf(&b, "  FAILED %v\n", err)
		}
	})
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	if last.Action == nil {
		b.WriteString(describe(last))
	}
	return b.String()
}

// run decides and acts until nothing happens any more or limit actions were
// taken, and gives the last decision. Time passes as the decisions ask.
func (w *world) run(goal decision.Goal, limit int, handover bool, each func(*cluster.Observation, decision.Decision, error)) (decision.Decision, error) {
	acted, quiet := 0, time.Duration(0)
	most := quietFor
	if handover {
		most = 5 * time.Minute // every leader has to watch a silence for itself
	}
	for {
		o := w.observe()
		goal = goal.Noted(o)
		dec := Next(goal, o)
		var err error
		if dec.Action != nil {
			err = w.act(dec.Action)
			goal.Acted = true
			quiet = 0
		}
		each(o, dec, err)
		wait := time.Second
		if dec.Action != nil {
			wait = decision.Soon
			if acted++; acted >= limit {
				if limit == mostActions {
					return dec, fmt.Errorf("no end after %d actions", acted)
				}
				return dec, err
			}
			if handover {
				w.handover()
			}
		} else {
			wait = max(wait, dec.Again)
		}
		w.advance(wait)
		if quiet += wait; quiet > most && (!opposable(dec) || quiet > most+generation.OpposedWithin) || dec.Done || dec.Refused {
			return dec, nil
		}
	}
}

// opposable: a recovery may wait for another leader to reject it.
func opposable(d decision.Decision) bool {
	return slices.ContainsFunc(d.Blockers, func(b decision.Blocker) bool { return b.Code == "recovering" })
}

// handover lets the next host that answers lead.
func (w *world) handover() {
	at := 0
	for i, h := range w.hosts {
		if h.Host == w.leader {
			at = i
		}
	}
	for i := range w.hosts {
		h := w.hosts[(at+1+i)%len(w.hosts)]
		if !h.down && h.gap == "" && !h.unpromised {
			w.lead(h.Host)
			return
		}
	}
}

func (w *world) show() string {
	var b strings.Builder
	for _, c := range w.clusters {
		fmt.Fprintf(&b, "cluster %s:", c.id)
		for _, m := range c.members {
			words := []string{"voter"}
			if m.Learner {
				words[0] = "learner"
			}
			if m.ID == c.leader {
				words = append(words, "leads raft")
			}
			if !w.alive(c, m.ID) {
				words = append(words, "not alive")
			}
			fmt.Fprintf(&b, " %s=%s (%s)", m.Name, m.ID, strings.Join(words, ", "))
		}
		b.WriteString("\n")
	}
	for _, h := range w.hosts {
		if len(h.SetAside) > 0 {
			fmt.Fprintf(&b, "host %s has set aside:", h.Host)
			for _, s := range h.SetAside {
				fmt.Fprintf(&b, " %s", s.Name())
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "intent: %s\n", describeIntent(w.store.intent))
	if in := w.store.intent; in != nil && in.Count != nil {
		fmt.Fprintf(&b, "members: the spec says %d, the command said %d, in force: %t\n", w.spec.MemberCount, in.Count.Members, in.Count.InForce(w.spec))
	}
	return b.String()
}
