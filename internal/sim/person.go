package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

const (
	// withGenerations is the share of the seeds in which generations are made.
	withGenerations = 0.35
	// luckBegins is where the numbers of a seed for them begin.
	luckBegins = 1 << 32
	// patience is how long the person waits between two looks at a cluster that
	// does not come to rest.
	patience = 45 * time.Second
	// autoRecoverAfter is longer than any fault of a seed keeps voters apart that
	// are alive: a recovery by itself takes those that it cannot see for lost.
	autoRecoverAfter = 4 * time.Minute
)

// luck is a number of the seed for what is done about generations.
func (g *generator) luck() dice {
	g.lucky++
	return g.seed.roll(g.lucky)
}

// order queues something that a person may want, or strikes at what comes of it.
func (g *generator) order() {
	w := g.w
	if g.joining() {
		return
	}
	names := w.backupsTaken()
	if len(names) == 0 || g.prunes {
		w.Queue(order{kind: cluster.CommandBackup})
		return
	}
	any := func() string { return names[g.luck().below(len(names))] }
	switch g.luck().below(14) {
	case 0, 1:
		w.Queue(order{kind: cluster.CommandBackup})
	case 2, 3:
		w.Queue(order{kind: cluster.CommandRestore, backup: any(), members: g.members()})
	case 4:
		w.Queue(order{kind: cluster.CommandRestore, backup: "2000-01-01T00:00:00Z-000000"})
	case 5:
		name := any()
		if in := w.recorded(); in != nil && in.State == cluster.IntentFounding {
			return // it may be needed to make that generation anew
		}
		w.Damage(name)
		w.Queue(order{kind: cluster.CommandRestore, backup: name})
	case 6:
		w.Queue(order{kind: cluster.CommandRestore, backup: any(), members: g.members()})
		w.apart()
		w.Queue(order{kind: cluster.CommandRestore, backup: any(), members: g.members()})
	case 7:
		g.undo()
	case 8:
		g.repeat(any())
	case 9, 10:
		g.loseQuorum()
	case 11:
		w.staging.Store(int64(g.luck().within(10*time.Second, 2*time.Minute)))
		w.Queue(order{kind: cluster.CommandRestore, backup: any(), members: g.members()})
	default:
		w.Queue(order{kind: cluster.CommandRestore, backup: any(), members: g.members()})
		g.strikeGeneration()
	}
}

// members is a count that a command may ask for; zero: it asks for none.
func (g *generator) members() int {
	n := []int{1, 3, 5}[g.luck().below(3)]
	if n > len(g.up()) || !g.luck().chance(0.4) {
		return 0
	}
	return n
}

// undo goes back to what some host set aside.
func (g *generator) undo() {
	ms := g.up()
	first := g.luck().below(len(ms))
	for i := range ms {
		m := ms[(first+i)%len(ms)]
		if dir := g.w.aside(m); dir != "" {
			g.w.Queue(order{kind: cluster.CommandUndo, host: m.ID(), dir: dir, members: g.members()})
			return
		}
	}
}

// repeat queues a restore whose objects appear in the store again later, when
// it may have been run.
func (g *generator) repeat(backup string) {
	w := g.w
	name := w.Queue(order{kind: cluster.CommandRestore, backup: backup})
	objects := w.copyOf(name)
	w.later(g.luck().within(5*time.Second, time.Minute), func() { w.putBack(w.ctx, objects) })
}

// loseQuorum destroys so many voters that the rest is no quorum, and later has
// a person recover from the furthest survivor.
func (g *generator) loseQuorum() {
	w := g.w
	w.step()
	in := w.recorded()
	voters, learners := w.voters()
	if w.awaitsStore() || in == nil || in.State != cluster.IntentFounded || in.Quarantined || len(in.Next) > 0 || len(voters) < 3 || len(learners) > 0 || len(w.survivors()) < len(voters) {
		return
	}
	first := g.luck().below(len(voters))
	for i := range len(voters) - cluster.Quorum(len(voters)) + 1 {
		m := w.carrier(voters[(first+i)%len(voters)].ID)
		if m == nil || m.gone.Load() {
			return
		}
		w.Halt(m)
		if g.luck().chance(0.6) {
			w.Leave(m)
			g.newMachine()
			continue
		}
		w.Wipe(m)
		w.later(g.luck().within(time.Second, 20*time.Second), func() { w.Start(m) })
	}
	g.struck = time.Now()
	w.later(g.luck().within(0, 30*time.Second), g.recover)
}

// leavesIt: the person has asked for a recovery by itself, and gives it its time.
func (g *generator) leavesIt() bool {
	after := g.spec.AutoRecoverAfter
	return after > 0 && time.Since(g.struck) < after+3*time.Minute
}

// recover is a person's answer to a quorum that is gone for good: from the
// furthest survivor, and hosts are named lost that really are.
func (g *generator) recover() {
	w := g.w
	if w.quorumLeft() || g.leavesIt() {
		return
	}
	o := order{kind: cluster.CommandRecover, lost: w.lost()}
	if from := w.survivors(); len(from) > 0 {
		o.host = from[0].ID()
	} else if o.kind, o.backup = cluster.CommandRestore, g.goodBackup(); o.backup == "" {
		w.violate("the generator destroyed everything")
		return
	}
	g.ask(o)
}

// ask queues a command unless it is in the queue like that.
func (g *generator) ask(o order) {
	for _, name := range g.w.queued() {
		if have, _ := g.w.ordered(name); have.kind == o.kind && have.host == o.host && have.backup == o.backup && have.members == o.members && slices.Equal(have.lost, o.lost) {
			return
		}
	}
	g.persons++
	g.w.Queue(o)
}

// goodBackup is the newest backup that is in the store and whole; empty: none.
func (g *generator) goodBackup() string {
	for _, name := range slices.Backward(g.w.backupsTaken()) {
		if _, damaged := g.w.backup(name); !damaged {
			return name
		}
	}
	return ""
}

// strikeGeneration strikes at one of the next steps of a generation's making.
func (g *generator) strikeGeneration() {
	w := g.w
	left := g.luck().below(20) + 1
	how := g.luck().below(5)
	short, long := g.luck().within(20*time.Millisecond, 3*time.Second), g.luck().within(time.Second, 25*time.Second)
	w.OnPoint(func(p Point) Strike {
		switch p.Kind {
		case kindBuild, kindInstall, kindSetAside, kindStop, kindSpawn:
			left--
		case kindStorePut, kindApply:
			if p.Kind == kindApply || p.Detail == intentKey {
				left--
			}
		}
		if left > 0 {
			return Strike{}
		}
		w.OnPoint(nil)
		m := w.hostNow(p.Host)
		switch {
		case m == nil:
			return Strike{}
		case how == 0:
			return Strike{Pause: long}
		case how == 1:
			w.later(0, func() { w.KillEtcd(m) })
		case how >= 3 && g.mayWipe(m):
			w.later(0, func() {
				w.Halt(m)
				w.Wipe(m)
			})
		}
		w.later(short, func() { w.Start(m) })
		return Strike{Crash: true}
	})
}

// mayWipe reports whether a disk can be lost while a generation is being made
// from a backup, which is made anew then: nobody was served by it yet.
func (g *generator) mayWipe(m *machine) bool {
	w := g.w
	in := w.recorded()
	if w.awaitsStore() || in == nil || in.State != cluster.IntentFounding || in.Source.Kind != cluster.SourceBackup {
		return g.mayLose(m)
	}
	w.check.mu.Lock()
	served := w.check.lines[in.Cluster] != nil
	w.check.mu.Unlock()
	_, damaged := w.backup(in.Source.Backup)
	return !served && !damaged && slices.Contains(w.queued(), in.CommandID)
}

// person looks at a cluster that has not come to rest, and does what blockers
// ask for.
func (g *generator) person() {
	w := g.w
	g.acquit()
	if g.holds() && w.wanted().Hold { // by a step that was still waiting when the faults ended
		g.liftHold()
	}
	if g.hostsWanted() {
		g.newMachine()
		return
	}
	if g.movesTheirs() || !g.generations || g.insist() {
		return
	}
	w.step()
	for _, name := range w.queued() {
		// A host that is gone or has another name now will not be heard again.
		if o, _ := w.ordered(name); o.host != "" && w.hostNow(o.host) == nil {
			w.tracef("", "host %s is gone", o.host)
			g.persons++
			w.Delete(name)
		}
	}
	in := w.recorded()
	if in != nil && in.State == cluster.IntentFounded && g.nameLost() {
		return
	}
	switch {
	case in == nil:
	case in.State == cluster.IntentFounding && in.Source.FromData():
		o, ok := w.ordered(in.CommandID)
		f := w.hostNow(in.Founders[0].Host)
		moved := f != nil && !slices.Equal(f.urls().Peer, in.Founders[0].URLs.Peer) // by TLS, and cannot found it any more
		if !ok || f != nil && !moved && len(w.lost()) <= len(in.Lost) {
			return // it needs time, and nobody
		}
		switch dir := w.furthestAside(f); {
		case o.host != "" && w.hostNow(o.host) == nil:
			o = order{kind: cluster.CommandRestore, backup: g.goodBackup()}
		case o.kind == cluster.CommandRecover && moved && g.again == in.Generation && dir != "": // its data was set aside for this one
			o = order{kind: cluster.CommandUndo, host: o.host, dir: dir}
		}
		if _, damaged := w.backup(o.backup); o.kind == cluster.CommandRestore && damaged && moved && g.again == in.Generation {
			o = g.fromAnother(in)
		}
		if o.lost = w.lost(); o.kind == cluster.CommandRestore && o.backup == "" {
			w.violate("the generator destroyed everything")
			return
		}
		if moved && g.again < in.Generation { // the very same: what is in the queue goes on with this one
			g.again = in.Generation
			g.persons++
			w.Queue(o)
			return
		}
		g.ask(o)
	default:
		g.recover()
	}
}

// movesTheirs is a person who finds a host's disk as it was before its member was taken
// over: the others serve, and the host joins anew on an empty one, as it asks for.
func (g *generator) movesTheirs() bool {
	w := g.w
	if in := w.recorded(); !g.foreign.on || in == nil || in.Generation == 0 || in.State != cluster.IntentFounded {
		return false
	}
	for _, m := range g.up() {
		s, ok := m.state()
		if !ok || s.Local.State != cluster.MemberNone || m.dir(w.foreign.token) == nil || m.running() != nil || !w.wholeWithout(m) {
			continue
		}
		w.tracef(m.ID(), "a person moves away what ran here before")
		g.persons++
		w.Halt(m)
		w.Wipe(m)
		w.apart()
		w.Start(m)
		return true
	}
	return false
}

// fromAnother is what a person asks for whose backup cannot be used: another backup, or
// else the data of the generation before, where they run or where they were set aside.
func (g *generator) fromAnother(in *cluster.Intent) order {
	o := order{kind: cluster.CommandRestore, backup: g.goodBackup()}
	if o.backup != "" {
		return o
	}
	if from := g.w.survivorsOf(in.Superseded()); len(from) > 0 {
		return order{kind: cluster.CommandRecover, host: from[0].ID()}
	}
	for _, m := range g.up() {
		if dir := g.w.furthestAside(m); dir != "" {
			return order{kind: cluster.CommandUndo, host: m.ID(), dir: dir}
		}
	}
	return o
}

// hostsWanted: a founding cannot go on with the hosts that there are, as where one of two
// founders is at other URLs than it was to found at; the blocker asks for further ones.
func (g *generator) hostsWanted() bool {
	in := g.w.recorded()
	if in == nil || in.State != cluster.IntentFounding || in.Source.FromData() {
		return false
	}
	return slices.ContainsFunc(g.up(), func(m *machine) bool {
		d := m.daemon.Load()
		if d == nil {
			return false
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.manager.Status().Leading && slices.ContainsFunc(d.decision.Blockers, func(b plan.Blocker) bool { return b.Code == "waiting-for-hosts" })
	})
}

// nameLost queues the first command anew where it does not name all hosts that
// are gone, as its blocker asks.
func (g *generator) nameLost() bool {
	if g.w.quorumLeft() {
		return false
	}
	for _, name := range g.w.queued() {
		if o, ok := g.w.ordered(name); ok && o.kind != cluster.CommandBackup {
			if len(o.lost) >= len(g.w.lost()) {
				return false
			}
			o.lost, o.byItself = g.w.lost(), false
			g.ask(o)
			return true
		}
	}
	return false
}

// hostNow is the machine that is this host now; nil: none.
func (w *World) hostNow(id cluster.HostID) *machine {
	for _, m := range w.hosts() {
		if m.ID() == id && !m.gone.Load() {
			return m
		}
	}
	return nil
}

// backupsTaken are the backups that the store has, in the order of their names.
func (w *World) backupsTaken() []string {
	infos, err := w.store.List(w.ctx, backupPrefix)
	if err != nil {
		w.violate("list the backups: %v", err)
	}
	var out []string
	for _, i := range infos {
		out = append(out, i.Key[len(backupPrefix):])
	}
	slices.Sort(out)
	return out
}
