package etcdscenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
)

const token = "scenario"

// commands is the language of the scenarios.
var commands = map[string]func(c *command) string{
	"cluster": foundCluster, "start": startHost, "kill": killHost, "stop": stopHost,
	"pause": pauseHost, "resume": resumeHost, "wipe": wipeHost, "cut": cutHost, "heal": healHost,
	"exited": exited, "wait": wait,
	"add": addMember, "readd": readd, "promote": promote, "remove": remove, "update": update,
	"lead": lead, "move-leader": moveLeader, "members": members, "status": status, "identity": identity,
	"version": version, "put": put, "get": get, "fill": fill,
	"grant": grant, "keep-alive": keepAlive, "revoke": revoke, "alarm": setAlarm, "compact": compact, "defragment": defragment, "disarm": disarm, "hash": hash, "new-leader": newLeader,
}

// foundCluster starts h1 … hn as founders: cluster n=3 [args=--flag=value].
func foundCluster(c *command) string {
	n := int(c.number("n", 1))
	maxLearners := c.number("max-learners", 1)
	if c.w.version().AtLeast(3, 6) {
		c.player.args = append(c.player.args, fmt.Sprintf("--max-learners=%d", maxLearners))
	}
	if q := c.value("quota", ""); q != "" {
		c.player.args = append(c.player.args, "--quota-backend-bytes="+q)
	}
	var initial []cluster.Member
	for i := 1; i <= n; i++ {
		h := fmt.Sprintf("h%d", i)
		initial = append(initial, cluster.Member{Name: h, PeerURLs: []string{c.w.peerURL(h)}})
	}
	ids, _ := etcd.MemberIDs(token, initial)
	for i, m := range initial {
		c.note(m.Name, ids[i])
		if err := c.w.start(m.Name, initial, true, c.player.args); err != nil {
			return err.Error()
		}
	}
	for _, m := range initial {
		if s := c.comesUp(m.Name, startTime); s != "serves" {
			return m.Name + " " + s
		}
	}
	return "serves"
}

// answers returns once a member answers.
func answers(ctx context.Context, m member.Member) error {
	for {
		_, err := m.LocalStatus(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// comesUp waits until a host's member serves or its process ends.
func (c *command) comesUp(h string, within time.Duration) string {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- answers(ctx, c.w.member(h)) }()
	for {
		select {
		case err := <-ready:
			if err == nil {
				return "serves"
			}
			if !c.w.running(h) {
				return "exits: " + c.w.exit(h)
			}
			return "silent"
		case <-time.After(pollEvery):
			if !c.w.running(h) {
				cancel()
				<-ready
				return "exits: " + c.w.exit(h)
			}
		}
	}
}

// startHost starts a host: start h4 [join|found] [within=3s].
func startHost(c *command) string {
	h := c.word(0)
	var initial []cluster.Member
	switch {
	case c.has("join"):
		ctx, cancel := context.WithTimeout(c.ctx, callTime)
		defer cancel()
		view, err := c.w.member(c.via()).View(ctx, false)
		if err != nil {
			return class(err)
		}
		initial = view.Members
		for i, m := range initial {
			if initial[i].Name = c.name(m); initial[i].Name == h {
				c.note(h, m.ID)
			}
		}
	case c.has("found"):
		for i := 1; i <= int(c.number("n", 3)); i++ {
			n := fmt.Sprintf("h%d", i)
			initial = append(initial, cluster.Member{Name: n, PeerURLs: []string{c.w.peerURL(n)}})
		}
	}
	if err := c.w.start(h, initial, c.has("found"), c.player.args); err != nil {
		return err.Error()
	}
	return c.comesUp(h, c.duration("within", startTime))
}

func eachHost(c *command, f func(h string)) string {
	for i := 0; c.word(i) != ""; i++ {
		f(c.word(i))
	}
	return "done"
}

func killHost(c *command) string   { return eachHost(c, c.w.kill) }
func stopHost(c *command) string   { return eachHost(c, c.w.stop) }
func wipeHost(c *command) string   { return eachHost(c, c.w.wipe) }
func pauseHost(c *command) string  { return eachHost(c, func(h string) { c.w.pause(h, true) }) }
func resumeHost(c *command) string { return eachHost(c, func(h string) { c.w.pause(h, false) }) }
func cutHost(c *command) string    { return eachHost(c, func(h string) { c.w.cut(h, true) }) }
func healHost(c *command) string   { return eachHost(c, func(h string) { c.w.cut(h, false) }) }

// exited waits until a host's process has ended: exited h3 until=8s.
func exited(c *command) string {
	h := c.word(0)
	if !c.until(func() bool { return !c.w.running(h) }) {
		return "runs"
	}
	return "exits: " + c.w.exit(h)
}

func wait(c *command) string {
	d, err := time.ParseDuration(c.word(0))
	if err != nil {
		return err.Error()
	}
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
	return "done"
}

func addMember(c *command) string {
	h := c.word(0)
	return c.try(func(ctx context.Context) error {
		m, err := c.w.member(c.via()).AddMember(ctx, []string{c.w.peerURL(h)}, c.has("learner"))
		if err == nil {
			c.note(h, m.ID)
		}
		return err
	})
}

// readd adds, removes and adds a learner again within one second of the clock,
// and gives the last answer. It starts over where a second began in between.
func readd(c *command) string {
	h := c.word(0)
	for range 10 {
		select { // begin early in a second
		case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 10*time.Millisecond))):
		case <-c.ctx.Done():
			return "ended"
		}
		began := time.Now().Unix()
		if a := addMember(c); a != "ok" {
			return "first add: " + a
		}
		if a := remove(c); a != "ok" {
			return "remove: " + a
		}
		answer := addMember(c)
		if time.Now().Unix() == began {
			return answer
		}
		if answer == "ok" {
			if a := remove(c); a != "ok" {
				return "clean up: " + a
			}
		}
	}
	return "never within one second of " + h
}

func promote(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.member(c.via()).Promote(ctx, c.id(c.word(0)))
	})
}

func remove(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.member(c.via()).Remove(ctx, c.id(c.word(0)))
	})
}

// update changes a member's peer URL: update h3 to=h9.
func update(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.member(c.via()).UpdatePeerURLs(ctx, c.id(c.word(0)), []string{c.w.peerURL(c.value("to", ""))})
	})
}

func moveLeader(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.member(c.via()).MoveLeader(ctx, c.id(c.word(0)))
	})
}

// lead moves raft leadership to a host, whoever has it.
func lead(c *command) string {
	h := c.word(0)
	end := time.Now().Add(startTime)
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(c.ctx, callTime)
		s, err := c.w.member(h).LocalStatus(ctx)
		if err == nil && s.Leader == c.id(h) {
			cancel()
			return "done"
		}
		for _, o := range c.hosts {
			if err == nil && c.id(o) == s.Leader {
				_ = c.w.member(o).MoveLeader(ctx, c.id(h)) // tried again
			}
		}
		cancel()
		select {
		case <-time.After(pollEvery):
		case <-c.ctx.Done():
			return "ended"
		}
	}
	return "cannot be made to lead"
}

// newLeader waits until a host sees a leader other than not=HOST.
func newLeader(c *command) string {
	h := c.word(0)
	ok := c.until(func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, callTime)
		defer cancel()
		s, err := c.w.member(h).LocalStatus(ctx)
		return err == nil && s.Leader != 0 && s.Leader != c.id(c.value("not", ""))
	})
	if !ok {
		return "none"
	}
	return "seen"
}

func members(c *command) string {
	var view cluster.MemberView
	answer := c.try(func(ctx context.Context) (err error) {
		view, err = c.w.member(c.via()).View(ctx, !c.has("local"))
		return err
	})
	if answer != "ok" {
		return answer
	}
	var lines []string
	for _, m := range view.Members {
		line := c.name(m)
		if m.Learner {
			line += " learner"
		} else {
			line += " voter"
		}
		if m.Name == "" {
			line += ", never started"
		}
		if id, ok := c.ids[c.name(m)]; ok && id != m.ID {
			line += ", not the member that was added last"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// status says what a member is. With want=CLASS it waits for it.
func status(c *command) string {
	answer := ""
	c.until(func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, c.duration("timeout", callTime))
		defer cancel()
		s, err := c.w.member(c.word(0)).Status(ctx)
		answer = describe(s, err)
		return answer == strings.ReplaceAll(c.value("want", answer), "-", " ")
	})
	return answer
}

func describe(s cluster.MemberStatus, err error) string {
	if err != nil {
		return class(err)
	}
	words := []string{"unhealthy"}
	if s.Healthy {
		words[0] = "healthy"
	}
	if s.Learner {
		words = append(words, "learner")
	}
	if s.Leader == 0 {
		words = append(words, "no leader")
	}
	for _, a := range s.Alarms {
		words = append(words, strings.Fields(a)[0])
	}
	return strings.Join(words, " ")
}

// identity says whether a member is the one that its host got last.
func identity(c *command) string {
	h := c.word(0)
	var s cluster.MemberStatus
	answer := c.try(func(ctx context.Context) (err error) {
		s, err = c.w.member(h).LocalStatus(ctx)
		return err
	})
	switch {
	case answer != "ok":
		return answer
	case s.Member == c.id(h):
		return "as before"
	}
	return "another"
}

// version says which release a member runs and what the cluster settled on.
func version(c *command) string {
	h := c.word(0)
	var s cluster.MemberStatus
	answer := c.try(func(ctx context.Context) (err error) {
		s, err = c.w.member(h).LocalStatus(ctx)
		return err
	})
	if answer != "ok" {
		return answer
	}
	settled := ""
	c.until(func() bool {
		settled = c.w.clusterVersion(h)
		// While it does not know all members' releases etcd says 3.0.0.
		return !slices.Contains([]string{"", "not_decided", "3.0.0"}, settled)
	})
	return fmt.Sprintf("member %s, cluster %s", s.Version, settled)
}
