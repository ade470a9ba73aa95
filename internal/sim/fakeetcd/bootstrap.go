package fakeetcd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// bootstrap is what etcd does between exec and the first raft tick. With a
// write-ahead log all arguments about the cluster are ignored; without one it
// founds or joins. Source: etcdserver/bootstrap.go.
func (p *Proc) bootstrap() {
	for _, u := range p.launch.URLs.Peer {
		if o := p.net.atPort(u); o != nil {
			p.end("listen on " + u + ": address already in use")
			return
		}
	}
	switch {
	case p.data.HasWAL():
		p.member, p.cluster = p.data.member, p.data.cluster
		p.begin(nil)
	case p.launch.Founding:
		p.found()
	default:
		p.join()
	}
}

// own finds the process's entry in its initial cluster. Source:
// ServerConfig.hasLocalMember and advertiseMatchesCluster.
func (p *Proc) own() (cluster.Member, error) {
	seen := make(map[string]bool)
	var own *cluster.Member
	for i, m := range p.launch.InitialCluster {
		if m.Name == string(p.launch.Name) {
			own = &p.launch.InitialCluster[i]
		}
		for _, u := range m.PeerURLs {
			if seen[u] {
				return cluster.Member{}, fmt.Errorf("initial cluster has duplicate url %s", u)
			}
			seen[u] = true
		}
	}
	if own == nil {
		return cluster.Member{}, fmt.Errorf("couldn't find local name %q in the initial cluster configuration", p.launch.Name)
	}
	return *own, nil
}

// found starts one of the founders.
func (p *Proc) found() {
	own, err := p.own()
	if err == nil && !sameURLs(own.PeerURLs, p.launch.URLs.Peer) {
		err = fmt.Errorf("--initial-cluster has %v but --initial-advertise-peer-urls has %v", own.PeerURLs, p.launch.URLs.Peer)
	}
	if err != nil {
		p.end(err.Error())
		return
	}
	ids, id := etcd.MemberIDs(p.launch.Token, p.launch.InitialCluster)
	var member cluster.MemberID
	for i, m := range p.launch.InitialCluster {
		if m.Name == own.Name {
			member = ids[i]
		}
	}
	p.ask(bootstrapWait, func(remote *Proc) {
		if remote != nil {
			// The first answer counts, whichever cluster gives it.
			if m := remote.st.members[member]; m != nil && len(m.ClientURLs) > 0 {
				p.end(fmt.Sprintf("member %s has already been bootstrapped", member))
				return
			}
		}
		var peers []raft.Peer
		for i, m := range p.launch.InitialCluster {
			m.ID, m.ClientURLs, m.Learner = ids[i], nil, false
			context, err := json.Marshal(confContext{Member: m})
			if err != nil {
				panic(fmt.Sprintf("fakeetcd: marshal a founder: %v", err))
			}
			peers = append(peers, raft.Peer{ID: uint64(ids[i]), Context: context})
			p.learned[ids[i]] = m.PeerURLs
		}
		slices.SortFunc(peers, func(a, b raft.Peer) int { return compareID(a.ID, b.ID) })
		p.create(member, id, peers)
	})
}

// join starts a member that was added to a running cluster.
func (p *Proc) join() {
	own, err := p.own()
	if err != nil {
		p.end(err.Error())
		return
	}
	p.ask(joinWait, func(remote *Proc) {
		if remote == nil {
			p.end("cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs")
			return
		}
		existing := remote.st.list()
		if len(existing) != len(p.launch.InitialCluster) {
			p.end("error validating peerURLs: member count is unequal")
			return
		}
		var member cluster.MemberID
		for _, m := range existing {
			at := slices.IndexFunc(p.launch.InitialCluster, func(l cluster.Member) bool { return sameURLs(l.PeerURLs, m.PeerURLs) })
			if at < 0 {
				p.end(fmt.Sprintf("error validating peerURLs: unmatched member while checking PeerURLs (%v)", m.PeerURLs))
				return
			}
			if p.launch.InitialCluster[at].Name == own.Name {
				member = m.ID
			}
			p.learned[m.ID] = m.PeerURLs
		}
		if learners := remote.st.learners(); learners > p.maxL {
			p.end("too many learner members in cluster")
			return
		}
		if v := remote.st.version; !v.IsZero() && older(p.launch.Version, v) {
			p.end("incompatible with current running cluster")
			return
		}
		if !remote.st.down.IsZero() {
			p.end("panic: server is not allowed to join when downgrade is enabled")
			return
		}
		p.create(member, remote.cluster, nil)
	})
}

// ask finds the first founder or member, in the order of the peer URLs, that
// answers for its cluster; nil: none did.
func (p *Proc) ask(wait time.Duration, then func(remote *Proc)) {
	var urls []string
	for _, m := range p.launch.InitialCluster {
		if m.Name != string(p.launch.Name) {
			urls = append(urls, m.PeerURLs...)
		}
	}
	slices.Sort(urls)
	var next func()
	next = func() {
		for len(urls) > 0 {
			u := urls[0]
			urls = urls[1:]
			remote := p.net.at(u)
			if secure(u) && !p.trusts {
				remote = nil
			}
			// Where nothing runs the connection is refused at once, and so the
			// model has it even for a host that is cut off.
			if remote != nil && (remote.paused || !p.net.linked(p.host, remote.host)) {
				p.later(wait, next)
				return
			}
			if remote != nil && len(remote.st.members) > 0 {
				p.later(2*linkDelay, func() {
					if remote.exit != "" {
						remote = nil
					}
					then(remote)
				})
				return
			}
		}
		then(nil)
	}
	next()
}

// create makes the write-ahead log and begins.
func (p *Proc) create(member cluster.MemberID, id cluster.ClusterID, peers []raft.Peer) {
	if p.net.crash(p, "create", false) {
		return
	}
	p.member, p.cluster = member, id
	p.data.member, p.data.cluster = member, id
	if p.net.crash(p, "create", true) {
		return
	}
	p.begin(peers)
}

// begin starts raft on the data.
func (p *Proc) begin(peers []raft.Peer) {
	p.listening, p.firstKept = true, p.data.cut
	p.log = p.data.storage()
	p.guard(func() {
		rn, err := raft.NewRawNode(&raft.Config{
			ID: uint64(p.member), ElectionTick: electionTicks, HeartbeatTick: 1,
			Storage: p.log, MaxSizePerMsg: 512 << 10, MaxInflightMsgs: 512,
			CheckQuorum: true, PreVote: p.launch.Version.AtLeast(3, 5), Logger: raftLog{p},
		})
		if err == nil && peers != nil {
			err = rn.Bootstrap(peers)
		}
		if err != nil {
			panic(fmt.Sprintf("fakeetcd: start raft: %v", err))
		}
		p.rn = rn
		p.timeout = electionTicks + p.rng.IntN(electionTicks)
	})
	if p.exit != "" {
		return
	}
	if why := p.unreadable(); why != "" {
		p.end(why)
		return
	}
	// A lone voter elects itself sooner, and so does one whose peers are there.
	// Source: EtcdServer.adjustTicks.
	switch {
	case len(p.st.members) == 1:
		p.advance(electionTicks - 1)
	case p.connectedPeers() > 1:
		p.advance(electionTicks - 2)
	}
	p.publishAt = time.Now()
	p.later(p.net.opt.Tick, p.tick)
}

func (p *Proc) advance(ticks int) {
	for range ticks {
		p.elapsed++
		p.rn.TickQuiesced()
	}
}

// older reports whether a release is of an earlier minor than the cluster's.
func older(v, clusterVersion cluster.Version) bool {
	return !v.AtLeast(clusterVersion.Major, clusterVersion.Minor)
}

func sameURLs(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func compareID(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// raftPanic is what raft's logger throws in place of ending the program.
type raftPanic string

func (e raftPanic) Error() string { return string(e) }

// raftLog keeps raft quiet but for what ends the process.
type raftLog struct{ p *Proc }

func (l raftLog) Debug(...any)              {}
func (l raftLog) Debugf(string, ...any)     {}
func (l raftLog) Info(...any)               {}
func (l raftLog) Infof(f string, v ...any)  {}
func (l raftLog) Warning(...any)            {}
func (l raftLog) Warningf(string, ...any)   {}
func (l raftLog) Error(...any)              {}
func (l raftLog) Errorf(string, ...any)     {}
func (l raftLog) Fatal(v ...any)            { panic(raftPanic(strings.TrimSpace(fmt.Sprintln(v...)))) }
func (l raftLog) Fatalf(f string, v ...any) { panic(raftPanic(fmt.Sprintf(f, v...))) }
func (l raftLog) Panic(v ...any)            { panic(raftPanic(strings.TrimSpace(fmt.Sprintln(v...)))) }
func (l raftLog) Panicf(f string, v ...any) { panic(raftPanic(fmt.Sprintf(f, v...))) }
