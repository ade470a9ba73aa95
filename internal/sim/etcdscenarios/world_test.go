package etcdscenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/sim/fakeetcd"
)

// world is what a scenario is played on.
type world interface {
	version() cluster.Version
	peerURL(h string) string
	// start runs etcd on a host with what is on its disk. initial is given at
	// a first start, and kept for later ones.
	start(h string, initial []cluster.Member, founding bool, args []string) error
	running(h string) bool
	exit(h string) string // why the last run ended, as a class
	kill(h string)
	stop(h string)
	pause(h string, on bool)
	wipe(h string)
	cut(h string, on bool) // h from all others
	member(h string) member.Member
	kv(h string) kv
	clusterVersion(h string) string
}

type kv interface {
	put(ctx context.Context, key, value string, lease int64) error
	get(ctx context.Context, key string, local bool) (string, error)
	grant(ctx context.Context, id, ttl int64) (int64, error)
	keepAlive(ctx context.Context, id int64) (int64, error)
	revoke(ctx context.Context, id int64) error
	alarm(ctx context.Context, kind string, member cluster.MemberID, on bool) error
}

// player plays a scenario: it knows members by the names of their hosts.
type player struct {
	ctx   context.Context
	w     world
	args  []string                    // for every member
	ids   map[string]cluster.MemberID // newest member at a host
	hosts []string                    // all ever named, in order
}

const (
	callTime  = 2 * time.Second  // a call that is expected to be answered
	startTime = 15 * time.Second // a member that is expected to serve
	pollEvery = 50 * time.Millisecond
)

func play(ctx context.Context, w world, steps []step) (answers []string) {
	p := &player{ctx: ctx, w: w, ids: map[string]cluster.MemberID{}}
	for _, s := range steps {
		c := command{player: p, args: s.args}
		f, ok := commands[s.cmd]
		if !ok {
			answers = append(answers, "no such command: "+s.cmd)
			continue
		}
		answers = append(answers, f(&c))
	}
	return answers
}

// command is one step with its arguments.
type command struct {
	*player
	args []datadriven.CmdArg
}

// word is the i-th argument without a value.
func (c *command) word(i int) string {
	for _, a := range c.args {
		if len(a.Vals) > 0 {
			continue
		}
		if i == 0 {
			return a.Key
		}
		i--
	}
	return ""
}

func (c *command) value(key, otherwise string) string {
	for _, a := range c.args {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return otherwise
}

func (c *command) has(word string) bool {
	return slices.ContainsFunc(c.args, func(a datadriven.CmdArg) bool { return a.Key == word })
}

func (c *command) number(key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(c.value(key, ""), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func (c *command) duration(key string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(c.value(key, ""))
	if err != nil {
		return otherwise
	}
	return d
}

func (c *command) via() string { return c.value("via", "h1") }

// try makes a call. With until=DURATION it is repeated while it is refused. With
// allow=CLASS that answer is as good as ok.
func (c *command) try(call func(ctx context.Context) error) string {
	answer := ""
	once := func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, c.duration("timeout", callTime))
		defer cancel()
		answer = class(call(ctx))
		return answer == "ok" || answer == "unknown outcome"
	}
	c.until(once)
	if allowed := strings.ReplaceAll(c.value("allow", ""), "-", " "); allowed != "" && (answer == "ok" || answer == allowed) {
		return "ok, or " + allowed
	}
	return answer
}

// until repeats done until it is true, or the command's time is over.
func (c *command) until(done func() bool) bool {
	end := time.Now().Add(c.duration("until", 0))
	for {
		if done() {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
		select {
		case <-time.After(pollEvery):
		case <-c.ctx.Done():
			return false
		}
	}
}

// classes are what the files may say of an error.
var classes = []struct {
	err   error
	class string
}{
	{etcd.ErrUnknownOutcome, "unknown outcome"},
	{etcd.ErrUnreachable, "unreachable"},
	{etcd.ErrNoAnswer, "no answer"},
	{fakeetcd.ErrLeaseExists, "refused: lease exists"},
	{fakeetcd.ErrLeaseNotFound, "refused: lease not found"},
}

var refusals = []error{
	etcd.ErrUnhealthy, etcd.ErrNotEnoughStarted, etcd.ErrNotReady, etcd.ErrTooManyLearners,
	etcd.ErrMemberNotFound, etcd.ErrMemberExists, etcd.ErrPeerURLExists, etcd.ErrBadPeerURLs,
	etcd.ErrNotLearner, etcd.ErrBadTransferee, etcd.ErrNotLeader, etcd.ErrNoLeader, etcd.ErrLearner,
	etcd.ErrNotCapable, etcd.ErrNoSpace, etcd.ErrCorrupt,
}

func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return "refused: " + r.Error()
		}
	}
	return "error: " + err.Error()
}

// note remembers a host, so that lists can name members.
func (p *player) note(h string, id cluster.MemberID) {
	p.ids[h] = id
	if !slices.Contains(p.hosts, h) {
		p.hosts = append(p.hosts, h)
	}
}

// id is the member at a host; "ghost" is none.
func (p *player) id(h string) cluster.MemberID {
	if id, ok := p.ids[h]; ok {
		return id
	}
	return 0x1234
}

// name is the host whose peer URL a member has.
func (p *player) name(m cluster.Member) string {
	for i := 1; i < 20; i++ {
		if h := fmt.Sprintf("h%d", i); slices.Contains(m.PeerURLs, p.w.peerURL(h)) {
			return h
		}
	}
	return strings.Join(m.PeerURLs, ",")
}
