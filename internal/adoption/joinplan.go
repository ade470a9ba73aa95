package adoption

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Plan says what is there, what Run would do, what clients notice, and what is
// missing. It changes nothing.
func (j *Join) Plan(ctx context.Context) (*Plan, error) {
	p := &Plan{}
	s, err := j.firstLook(ctx)
	switch {
	case err != nil && !errors.Is(err, errList):
		return nil, err
	case errors.Is(err, ErrCredential), errors.Is(err, ErrRole):
		p.missing("%v", errors.Unwrap(err))
		return p, nil
	case err != nil:
		p.missing("no member at --endpoints gives a list that went through raft (%v): it has no quorum, cannot be reached, or takes no certificate or user that was given%s", err, untrusted(err))
		return p, nil
	}
	p.fact("cluster %s of %s", s.Cluster, members(len(s.Members)))
	for _, m := range s.Members {
		p.fact("%s", j.describe(s, m))
	}
	if s.Spec != nil {
		p.fact("the spec in the store asks for %d members of etcd %s", s.Spec.MemberCount, s.Spec.EtcdVersion)
	}
	next := s.Next()
	if ours, err := j.alreadyOurs(ctx, p, s); err != nil || ours {
		return p, err
	}
	switch {
	case next.Kind == StepRefuse, next.Kind == StepWait && (s.Joining == nil || s.ended()):
		p.missing("%s", next.Reason)
	default:
		switch err := j.mayChange(ctx); {
		case errors.Is(err, ErrCredential), errors.Is(err, ErrRole):
			p.missing("%v", err)
		case err != nil:
			p.missing("no member has answered whether what was given may change members (%v): run this again when the cluster has a leader", err)
		}
	}
	j.fits(ctx, p, s)
	if len(p.Missing) == 0 {
		j.steps(ctx, p, s)
	}
	return p, nil
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

func (j *Join) describe(s *Scene, m Seen) string {
	whose := "not ours"
	if cluster.SameAddresses(m.PeerURLs, s.Peer) {
		whose = "this host's"
	} else if s.isOurs(m) {
		whose = "ours"
	}
	if m.Learner {
		whose += ", learner"
	}
	state := m.Why
	if m.Status != nil {
		state = "etcd " + m.Status.Version.String()
		if m.Status.Leader == m.ID {
			state += ", leads raft"
		}
		if !m.Up() {
			state += ", not healthy"
		}
	}
	return fmt.Sprintf("member %s at %s, for clients %s: %s; %s", m.label(), strings.Join(m.PeerURLs, ", "), strings.Join(m.ClientURLs, ", "), whose, state)
}

// alreadyOurs: there is nothing left to adopt, or the store is another cluster's.
func (j *Join) alreadyOurs(ctx context.Context, p *Plan, s *Scene) (bool, error) {
	if j.Folder == nil || s.otherCluster() != nil { // which was told
		return false, nil
	}
	in, marker, err := readIntent(ctx, j.Folder)
	switch {
	case err != nil:
		return false, err
	case marker && !in.Adopted() && in.Cluster == s.Cluster:
		p.fact("the cluster is ours already: its record in the store is of generation %d", in.Generation)
		return true, nil
	case marker && !in.Adopted():
		p.missing("the store holds the record of cluster %q, generation %d; give every cluster a store of its own", in.Name, in.Generation)
	case marker && s.Joining == nil && !in.Joins:
		p.missing("the store has the marker of a cluster founded by another program, and no join is under way: an adoption in place was begun, or etcd-manager uses this store; continue that adoption, or give the cluster its own store")
	}
	return false, nil
}

// settles is how long the plan waits for what passes by itself while members come and
// go: a list during an election, a peer port of a host that is busy.
const settles = 8 * time.Second

// firstLook is Look, for a while where members are listed to go or to come: a moment
// without a leader is no reason to send a person away.
func (j *Join) firstLook(ctx context.Context) (*Scene, error) {
	began := time.Now()
	for {
		s, err := j.Look(ctx)
		if !errors.Is(err, errList) || time.Since(began) > settles || !j.underWay(ctx) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// mayChange is what the members say of the credential. While an adoption is under way
// one that does not answer is asked again for a while, as in firstLook.
func (j *Join) mayChange(ctx context.Context) error {
	began := time.Now()
	for {
		err := j.Members.MayChange(ctx)
		if err == nil || errors.Is(err, ErrCredential) || errors.Is(err, ErrRole) || time.Since(began) > settles || !j.underWay(ctx) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// underWay: an adoption was begun with this store, whether or not it has ended.
func (j *Join) underWay(ctx context.Context) bool {
	if j.Folder == nil {
		return false
	}
	now, _, err := readJoining(ctx, j.Folder)
	return err == nil && now != nil && now.Backup != ""
}

// fits is about this host: release, addresses, certificates, data. One whose member
// votes has shown all of that, and another run may be removing who is asked.
func (j *Join) fits(ctx context.Context, p *Plan, s *Scene) {
	if own, listed := s.own(); listed && !own.Learner && s.isOurs(own) {
		return
	}
	v := s.Version()
	if _, has := j.release(s); !has && !v.IsZero() {
		p.missing("this host has no etcd %s, which the members run: install it (etcdadm download %s), or name its directory with --release-dir; a pod has those of its image and of spec.releases", v, v)
	}
	if s.Admission == nil {
		for _, name := range []string{"data", "member"} {
			if entries, err := os.ReadDir(filepath.Join(j.DataDir, name)); err == nil && len(entries) > 0 {
				p.missing("%s holds %s already, and a host that joins begins empty: empty it, and run this again (%s)", j.DataDir, filepath.Join(name, entries[0].Name()), howEmpty)
			}
		}
	}
	if err := j.Members.Certified(); err != nil {
		p.missing("%v", err)
		return
	}
	for _, m := range s.Members {
		if cluster.SameAddresses(m.PeerURLs, s.Peer) {
			continue
		}
		if why := j.otherTLS(s, m); why != "" {
			p.missing("%s", why)
			return
		}
		if err := j.reach(ctx, m); err != nil {
			p.missing("member %s is not reached at its peer URLs as this host's member would: %v%s", m.label(), err, untrusted(err))
		}
	}
}

// otherTLS is why this host cannot speak with a member for the sake of TLS, or serve clients as it does; empty: it can. Who has
// certificates joins members without them, and not the other way round. Of ours all have them, or none.
func (j *Join) otherTLS(s *Scene, m Seen) string {
	const give = "give this host's daemon the authority that the members trust (--pki-dir)"
	ours := s.isOurs(m)
	for _, u := range m.ClientURLs {
		switch {
		case ours && secure(u) != secure(j.URLs.Client[0]):
			return fmt.Sprintf("member %s, which is ours, serves clients at %s, and this host would at %s: start all daemons of ours with TLS, or all without (--etcd-insecure)", m.label(), u, j.URLs.Client[0])
		case secure(u) && !secure(j.URLs.Client[0]):
			return fmt.Sprintf("member %s serves clients at %s, and this host would at %s: %s", m.label(), u, j.URLs.Client[0], give)
		}
	}
	for _, u := range m.PeerURLs {
		switch {
		case ours || !secure(u): // ours turn it on themselves
		case !secure(j.URLs.Peer[0]):
			return fmt.Sprintf("member %s speaks at %s with its peers, and this host would at %s: %s", m.label(), u, s.Peer[0], give)
		case slices.ContainsFunc(s.Members, func(o Seen) bool { return !s.isOurs(o) && !slices.ContainsFunc(o.PeerURLs, secure) }):
			return fmt.Sprintf("member %s speaks TLS with its peers (%s), and others of them do not: have all of them speak with it, or all without, and run this again", m.label(), u)
		}
	}
	return ""
}

// untrusted says how to make two sides believe each other's certificates, where that is why there is no connection; else it is empty.
func untrusted(err error) string {
	var ours *tls.CertificateVerificationError
	var theirs *net.OpError
	if !errors.As(err, &ours) && !(errors.As(err, &theirs) && theirs.Op == "remote error") { // an alert of TLS
		return ""
	}
	return ". This host needs the authority that the members trust, with its key: --pki-dir; in Kubernetes another EtcdCluster with spec.bootstrap.adopt.secret"
}

// reach is nil, too, where the member has gone since the look, by itself or by another
// run: the next look tells what that means.
func (j *Join) reach(ctx context.Context, m Seen) error {
	if m.Status == nil {
		return nil
	}
	began := time.Now()
	err := j.Members.Reach(ctx, m.Member)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && time.Since(began) < settles {
		err = j.Members.Reach(ctx, m.Member)
	}
	if err == nil {
		return nil
	}
	if st, gone := j.Members.Status(ctx, m.Member); gone != nil || !st.Healthy {
		return nil //nolint:nilerr // it is waited for, or gone
	}
	return err
}

func secure(u string) bool { return strings.HasPrefix(u, "https:") }

func (j *Join) steps(ctx context.Context, p *Plan, s *Scene) {
	count := s.want()
	var foreign []Seen
	ours := 0
	for _, m := range s.Members {
		switch {
		case s.isOurs(m):
			if !m.Learner {
				ours++
			}
		default:
			foreign = append(foreign, m)
		}
	}
	slices.SortStableFunc(foreign, func(a, b Seen) int { // who is down goes first, who leads last
		return cmp.Compare(rank(s, a), rank(s, b))
	})
	if s.ended() {
		p.step("what the store says of an earlier adoption (%d hosts of ours, backup %s) is over, and is written anew", s.Joining.Members, cmp.Or(s.Joining.Backup, "none"))
	}
	if s.Joining == nil || s.Joining.Backup == "" || s.ended() {
		j.settingsSteps(ctx, p, s)
		p.step("a backup of the cluster, into the store; with it who its members are, the spec (%d members of etcd %s), and the marker that keeps our daemons from founding a cluster", count, s.Version())
	}
	if own, listed := s.own(); !listed || own.Learner {
		p.step("this host joins at %s: as a learner, which its daemon starts and which counts for no quorum; promoted when it has caught up and every voter is healthy%s", strings.Join(s.Peer, ", "), j.withoutTLS(s))
		ours++
	}
	switch {
	case j.Keep:
		p.step("then it ends: no member is removed (--keep)")
	case ours < count:
		p.step("then the same on %s, one after the other; only the last one goes on", hosts(count-ours))
		fallthrough
	default:
		for i, m := range foreign {
			p.step("member %s is removed%s: %d stay; each of them has to be healthy", m.label(), leads(s, m), count+len(foreign)-i-1)
		}
		p.step("the leading daemon writes the cluster's record; from then on it is one like any other")
		if cluster.TurnsTLSOn(s.Peer, j.URLs.Peer) {
			p.step("the daemons turn TLS on between the members, one restart each")
		}
	}
	p.step("what clients notice: one election at most, when leadership moves; whoever is connected to a member that goes has to connect to another. Before the removals give them our hosts' endpoints, this one's is %s%s: the old ones will not answer any more", strings.Join(j.URLs.Client, ","), j.newToTLS(foreign))
	p.step("afterwards take away what ran the removed members (the unit, the static pod's manifest, the StatefulSet) before anything empties their directories or volumes: started anew on an empty one with the settings of their first start, they would found an empty cluster at the old endpoints")
}

// withoutTLS is what it costs where a host with TLS joins members that speak without; empty: it does not.
func (j *Join) withoutTLS(s *Scene) string {
	if !cluster.TurnsTLSOn(s.Peer, j.URLs.Peer) {
		return ""
	}
	return ". It speaks without TLS with its peers, as they do, until the cluster is ours: whoever reaches that port reads and writes as a member does"
}

// newToTLS is what clients need besides that had none of it; empty: nothing.
func (j *Join) newToTLS(foreign []Seen) string {
	plain := func(m Seen) bool { return slices.ContainsFunc(m.ClientURLs, func(u string) bool { return !secure(u) }) }
	if secure(j.URLs.Client[0]) && slices.ContainsFunc(foreign, plain) {
		return ", with a certificate of the authority for clients, which they did not need so far"
	}
	return ""
}

// settingsSteps are the settings that Run writes.
func (j *Join) settingsSteps(ctx context.Context, p *Plan, s *Scene) {
	wanted, unknown := j.settings(ctx, s)
	for _, why := range unknown {
		p.fact("%s", why)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		why := ""
		if asked := j.Options[name]; name == quotaOption && asked == "" {
			why = ", so that ours take as much data as the members do"
		} else if asked != wanted[name] {
			why = fmt.Sprintf(", as the members have it, and not %s, which was asked for: ours would raise NOSPACE for all of them", asked)
		}
		p.step("in the store's spec: %s=%s%s", name, wanted[name], why)
	}
}

func rank(s *Scene, m Seen) int {
	switch {
	case !m.Up():
		return -1
	case m.ID == s.leader():
		return 1
	}
	return 0
}

func hosts(n int) string {
	if n == 1 {
		return "1 more host"
	}
	return fmt.Sprintf("%d more hosts", n)
}

func leads(s *Scene, m Seen) string {
	if s.leader() == m.ID && m.ID != cluster.MemberID(0) {
		return " (it leads raft now; leadership moves to a member of ours first)"
	}
	return ""
}
