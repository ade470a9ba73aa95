// Package adoption makes ready what our daemons need to take over an etcd that
// something else runs: kubeadm, etcdadm of kubernetes-sigs, a hand-made unit. It
// brings files of this host into the shape in which etcd-manager leaves a member,
// and the store into the one of a cluster that it founded; from there on the way is
// that of docs/adr/016-adoption.md, host by host.
//
// It stops nothing and deletes nothing. Every step may have been taken before: a
// second run goes on where the first one ended. The invariant: whenever etcd's data
// is not where its former owner looks for it, something lies there that keeps an
// etcd from starting, since one on an empty directory could come up under the same
// member ID and vote acknowledged writes away (SAFETY.md, rule 8).
package adoption

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
)

// Request is what a person asks for, with what was seen of the cluster.
type Request struct {
	// From is etcd's data directory, which holds member; DataDir is the daemon's to
	// be, which may be the same.
	From, DataDir string
	// CertsDir holds ca.crt, server.{crt,key} and peer.{crt,key}, as kubeadm and
	// etcdadm of kubernetes-sigs have them; empty: no TLS.
	CertsDir string
	// PKIDir is where the daemons' authorities are to lie. PKIGiven: they come from a
	// host of the cluster, and etcd's authority is not needed for them.
	PKIDir   string
	PKIGiven bool

	// Members is a member list that went through raft; nil: none could be had, and
	// an earlier run has written down what is needed.
	Members *cluster.MemberView
	// Version is the release that this host's member runs; zero: unknown, because of
	// Unanswered where it was asked.
	Version    cluster.Version
	Unanswered error

	// Quota is the member's, in bytes, where that is not etcd's default; see QuotaOf.
	Quota int64
	// QuotaUnknown is what is to be said where that could not be read; empty: it could.
	QuotaUnknown string
	// Flags are the settings of the etcd that runs on From; nil: they could not be read,
	// for the reason of FlagsUnknown, or it does not run.
	Flags        []Flag
	FlagsUnknown error
	// Manifest is the static pod that runs etcd on From; empty: none. Unit is the service
	// of systemd that does.
	Manifest string
	Unit     string

	// Held is an error when a process holds etcd's locks in a data directory.
	Held func(dataDir string) error
}

// Plan is what is there, what is to be done, and what is missing.
type Plan struct {
	Facts   []string
	Steps   []string // in the order in which they are taken
	Missing []string // nothing is done before these are there
	// Stop says why etcd has to be stopped before the last step; nil: it does not run.
	Stop error
	// Token, Host, Member and URLs are as the daemon will have them.
	Token  string
	Host   cluster.HostID
	Member cluster.MemberID
	URLs   cluster.URLs
	// Kept is what becomes of the old etcd's settings.
	Kept Kept

	request Request
	state   record.PredecessorState
	moved   bool
}

// quarantinePort is where clients are kept out of, as by etcd-manager's default.
const quarantinePort = "8001"

// Look looks at this host's files, at the store (nil: it cannot be looked into yet)
// and at what was seen of the cluster, and changes nothing. What keeps the adoption from going on is in the plan, not an error.
func Look(ctx context.Context, r Request, f *control.Folder) (*Plan, error) {
	p := &Plan{request: r}
	dir, err := p.findData()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		p.missing("%s holds no member: etcd's data is not on this host, or elsewhere; name it with --etcd-data-dir, or join the cluster with --join", r.From)
		return p, nil
	}
	id, member, err := datadir.LogOwner(filepath.Join(dir, "wal"))
	if err != nil {
		p.missing("whose data lies in %s cannot be read (%v); a write-ahead log in another directory (--wal-dir) is to be moved to %s first", dir, err, filepath.Join(dir, "wal"))
		return p, nil
	}
	p.Token, p.Member = "adopted-"+id.String(), member
	p.fact("%s holds the data of member %s of cluster %s", dir, member, id)
	if err := p.matchMembers(id); err != nil {
		return nil, err
	}
	if err := p.lookAtStore(ctx, f); err != nil {
		return nil, err
	}
	p.lookAtCertificates()
	p.readFlags()
	if len(p.Missing) == 0 {
		p.listSteps()
	}
	return p, nil
}

func (p *Plan) fact(format string, args ...any) {
	p.Facts = append(p.Facts, fmt.Sprintf(format, args...))
}
func (p *Plan) step(format string, args ...any) {
	p.Steps = append(p.Steps, fmt.Sprintf(format, args...))
}
func (p *Plan) missing(format string, args ...any) {
	p.Missing = append(p.Missing, fmt.Sprintf(format, args...))
}

// matchMembers finds this host's member in the list, or in what an earlier run
// wrote down.
func (p *Plan) matchMembers(id cluster.ClusterID) error {
	view := p.request.Members
	if view == nil {
		s, err := readState(p.request.DataDir)
		if err != nil {
			p.missing("no member answers at --endpoints, and no earlier run has written down what is needed (%v); start etcd again, and run this while it serves", err)
			return nil
		}
		p.state = *s
		if !p.readHost() {
			p.missing("%s does not name one of the members", filepath.Join(p.request.DataDir, "myid"))
		}
		return nil
	}
	if view.Cluster != id {
		p.missing("the members at --endpoints are of cluster %s", view.Cluster)
		return nil
	}
	i := slices.IndexFunc(view.Members, func(m cluster.Member) bool { return m.ID == p.Member })
	if i < 0 {
		p.missing("member %s is not listed any more: it was removed", p.Member)
		return nil
	}
	names := map[string]bool{}
	for _, m := range view.Members {
		switch {
		case m.Learner:
			p.missing("member %s (%s) is a learner; promote or remove it first", m.ID, m.Name)
		case m.Name == "" || names[m.Name]:
			p.missing("member %s has no name, or one that another member has; it has to be running, with a --name of its own", m.ID)
		}
		names[m.Name] = true
		p.state.Nodes = append(p.state.Nodes, record.PredecessorNode{Name: m.Name, URLs: cluster.URLs{Peer: m.PeerURLs, Client: m.ClientURLs, Quarantine: Quarantined(m.ClientURLs)}})
	}
	own := view.Members[i]
	p.Host, p.URLs = cluster.HostID(own.Name), p.state.Nodes[i].URLs
	p.state.Token = p.Token
	p.fact("it is %s, one of %d members, at %s", own.Name, len(view.Members), strings.Join(own.PeerURLs, ", "))
	if p.request.Version.IsZero() {
		if s, err := readState(p.request.DataDir); err == nil {
			p.state.Version = s.Version
			return nil
		}
		if why := p.request.Unanswered; why != nil {
			p.missing("its member does not answer, so its release is unknown: %v", why)
			return nil
		}
		p.missing("which release it runs is not known, since it does not answer; start it again, and run this while it serves")
		return nil
	}
	p.state.Version = p.request.Version.String()
	p.fact("it runs etcd %s", p.request.Version)
	if p.request.QuotaUnknown != "" {
		p.fact("%s", p.request.QuotaUnknown)
	}
	return nil
}

func (p *Plan) readHost() bool {
	id, err := datadir.HostID(p.request.DataDir, nil)
	if err != nil {
		return false
	}
	node, named := p.state.Node(id)
	p.Host, p.URLs = id, node.URLs
	return named
}

// Quarantined are the URLs for which clients are kept out, as by etcd-manager's default.
func Quarantined(urls []string) (out []string) {
	for _, u := range urls {
		if i := strings.LastIndex(u, ":"); i > 0 {
			out = append(out, u[:i+1]+quarantinePort)
		}
	}
	return out
}

// lookAtStore: the store has to be nobody's, or one that was made ready before.
func (p *Plan) lookAtStore(ctx context.Context, f *control.Folder) error {
	if f == nil {
		return nil
	}
	in, marker, err := readIntent(ctx, f)
	if err != nil && !errors.Is(err, control.ErrOtherCluster) {
		return err
	}
	if marker && !in.Adopted() {
		p.missing("the store holds the record of cluster %q, generation %d; give every cluster a store of its own", in.Name, in.Generation)
	}
	return nil
}

func (p *Plan) listSteps() {
	r := p.request
	p.step("in the store: the spec (%d members of etcd %s) and the marker of a cluster that another program founded, where they are not there", len(p.state.Nodes), p.state.Version)
	p.step("%s: myid (%s) and state, which say what this host's member is", r.DataDir, p.Host)
	if r.CertsDir != "" {
		p.step("%s: copies of the certificates of %s; %s: its authority for members and clients, and one for the daemons", filepath.Join(r.DataDir, "pki", p.Token), r.CertsDir, r.PKIDir)
	}
	if r.Quota > 0 {
		p.step("in the store's spec: %s=%d, as the member has it, where a person has written none", quotaOption, r.Quota)
	}
	if !p.moved && r.Manifest != "" {
		p.step("before the data is touched: %s is moved away, by you, so that no static pod starts etcd there", r.Manifest)
	}
	if !p.moved {
		p.step("%s is moved to %s; in its place lies a file that keeps any other etcd from starting there", filepath.Join(r.From, "member"), p.memberDir())
	}
}

func (p *Plan) memberDir() string {
	return filepath.Join(p.request.DataDir, "data", p.Token, "member")
}

// Peers are the peer URLs of the other members.
func (p *Plan) Peers() (out []string) {
	for _, n := range p.state.Nodes {
		if n.Name != string(p.Host) {
			out = append(out, n.URLs.Peer...)
		}
	}
	return out
}
