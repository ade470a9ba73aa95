package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
)

// A rotation of the authorities is a part of the record, and this host follows the record that it keeps, by itself
// (docs/adr/033-rotating-the-authorities.md).

const (
	// followEvery is how often it is looked whether the record asks for something else.
	followEvery = time.Second
	// followAgain is how often what the record asks is made sure of anew, and tried again where it failed.
	followAgain = 30 * time.Second
	// followRetry is the first time after which what failed is tried again.
	followRetry = 3 * time.Second
	// askKey bounds the question to one host for a key.
	askKey = 3 * time.Second
)

// rotation is what following takes from the rest of the daemon.
type rotation struct {
	kept func() *cluster.Rotation // by the record that this host keeps; nil: none
	// ask asks the other hosts for a key, that host first; false: no host gave one that is taken.
	ask func(ctx context.Context, first cluster.HostID, r peer.AuthorityRequest, take func(key []byte) error) error
	// redial has later calls to other daemons connect anew, with the leaf that this host has by then: who drops an
	// authority refuses calls on connections of its leaves.
	redial  func()
	noticed func() // something changed that a leader should look at

	tried *cluster.Rotation
	at    time.Time // of that
	again time.Duration
	owes  bool // files were changed on the disk that are not in use yet

	// done is what was followed wholly, problem why it was not; guarded by the mutex of the certificates.
	done    *cluster.Rotation
	problem string
}

// changeOf is what becomes of an authority, but for the drop, which comes last.
func changeOf(r *cluster.Rotation, c cluster.AuthorityChange) (pki.Change, error) {
	old, err := pki.ParseCertificate(c.Old.PEM)
	if err != nil {
		return pki.Change{}, fmt.Errorf("the record's certificate of the old %s: %w", c.Name, err)
	}
	next, err := pki.ParseCertificate(c.Next.PEM)
	if err != nil {
		return pki.Change{}, fmt.Errorf("the record's certificate of the next %s: %w", c.Name, err)
	}
	if pki.Fingerprint(old) != c.Old.SHA256 || pki.Fingerprint(next) != c.Next.SHA256 {
		return pki.Change{}, fmt.Errorf("the record's certificates of %s are not those that it names", c.Name)
	}
	return pki.Change{
		ID: r.ID, Name: c.Name, Old: old, Next: next, TrustNext: len(r.Trusts(c)) == 2, SignNext: r.Signs(c).SHA256 == c.Next.SHA256,
	}, nil
}

// makeNext makes the next authorities of a rotation on this host, the keys durably, and gives their certificates.
func (k *certs) makeNext(id string, of []cluster.AuthorityChange) ([]cluster.AuthorityChange, error) {
	cas := k.authorities()
	if cas == nil {
		return nil, errors.New("this host has no authorities")
	}
	var out []cluster.AuthorityChange
	for _, c := range of {
		at := slices.IndexFunc(cas.All(), func(a *pki.Authority) bool { return a.Name() == c.Name })
		if at < 0 {
			return nil, fmt.Errorf("this host has no %s", c.Name)
		}
		old := cas.All()[at].Signing()
		if old == nil || pki.Fingerprint(old) != c.Old.SHA256 {
			return nil, fmt.Errorf("this host's %s was changed a moment ago", c.Name)
		}
		next, err := pki.MakeNext(k.pkiDir, c.Name, id, time.Now())
		if err != nil {
			return nil, err
		}
		out = append(out, cluster.AuthorityChange{Name: c.Name, Old: certificateOf(old), Next: certificateOf(next)})
	}
	return out, nil
}

func certificateOf(c *x509.Certificate) cluster.AuthorityCertificate {
	return cluster.AuthorityCertificate{SHA256: pki.Fingerprint(c), PEM: pki.CertificatePEM(c)}
}

// follow does what the record asks of this host, where it was not done, and makes sure of it once in a while.
func (k *certs) follow(ctx context.Context) {
	f := &k.follows
	if f.kept == nil {
		return
	}
	r := f.kept()
	if r == nil {
		return
	}
	if f.tried == nil || !sameRotation(f.tried, r) {
		f.again = 0
	} else if time.Since(f.at) < f.again {
		return
	}
	err := k.followTo(ctx, r)
	done, problem := r, ""
	switch {
	case err != nil:
		done, problem = nil, explain(err)
		k.failed("cannot follow the rotation of the authorities", err)
		f.again = min(max(followRetry, 2*f.again), followAgain)
	case f.again == 0:
		k.log.Info("followed the rotation of the authorities", "rotation", r.ID, "phase", r.Phase, "undo", r.Undo)
		fallthrough
	default:
		f.again = followAgain
	}
	f.tried, f.at = r, time.Now()
	k.mu.Lock()
	f.done, f.problem = done, problem
	k.mu.Unlock()
	k.writing.Lock()
	changed := k.tell()
	k.writing.Unlock()
	if changed {
		f.noticed()
	}
}

func sameRotation(a, b *cluster.Rotation) bool {
	return a.ID == b.ID && a.Phase == b.Phase && a.Undo == b.Undo
}

// explain is an error with its way out, for people of other hosts.
func explain(err error) string {
	var told interface{ Hint() string }
	if errors.As(err, &told) && told.Hint() != "" {
		return err.Error() + "; " + told.Hint()
	}
	return err.Error()
}

// followTo goes the whole way each time: what was done is nothing the second time. First more is trusted, then other
// keys sign and all leaves are issued anew, and only then less is trusted.
func (k *certs) followTo(ctx context.Context, r *cluster.Rotation) error {
	var changes []pki.Change
	for _, c := range r.Authorities {
		change, err := changeOf(r, c)
		if err != nil {
			return err
		}
		changes = append(changes, change)
	}
	if r.Phase == cluster.RotateDone {
		return k.drop(ctx, r, changes)
	}
	for _, c := range changes {
		if now := time.Now(); now.Before(c.Next.NotBefore) && !r.Undo {
			return fmt.Errorf("the next %s is valid from %s, and this host's clock says %s: set the clock by NTP", c.Name, c.Next.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
		changed, err := c.Trust(k.pkiDir)
		if err != nil {
			return err
		}
		k.follows.owes = k.follows.owes || changed
	}
	if k.follows.owes { // before anything is signed by what others trust by now
		if err := k.use(ctx); err != nil {
			return err
		}
	}
	if err := k.sign(ctx, r, changes); err != nil {
		return err
	}
	if r.Drops() {
		return k.drop(ctx, r, changes)
	}
	return nil
}

// sign gets the keys that the phase needs, and signs with those that it signs with. In an undo that is the old one, which a host
// that joined after the exchange never had.
func (k *certs) sign(ctx context.Context, r *cluster.Rotation, changes []pki.Change) error {
	for _, c := range changes {
		need := c.Next
		if r.Undo {
			need = c.Old
		}
		if !c.HasKey(k.pkiDir, need) {
			request := peer.AuthorityRequest{Rotation: r.ID, Name: c.Name}
			if err := k.follows.ask(ctx, r.By, request, func(key []byte) error { return c.PutKey(k.pkiDir, need, key) }); err != nil {
				return err
			}
		}
		changed, err := c.Sign(k.pkiDir)
		if err != nil {
			return err
		}
		k.follows.owes = k.follows.owes || changed
	}
	if k.follows.owes || !k.allOf(r) {
		return k.use(ctx)
	}
	return nil
}

// drop takes out whom nobody is to trust any more, once no leaf of this host is of it.
func (k *certs) drop(ctx context.Context, r *cluster.Rotation, changes []pki.Change) error {
	if !k.allOf(r) {
		if r.Phase == cluster.RotateDone { // somebody has put other authorities here since, which is a person's to know
			return nil
		}
		return errors.New("not all certificates of this host are renewed yet")
	}
	for _, c := range changes {
		c.TrustNext, c.Drop = false, true
		changed, err := c.Trust(k.pkiDir)
		if err != nil {
			return err
		}
		k.follows.owes = k.follows.owes || changed
	}
	if k.follows.owes {
		return k.use(ctx)
	}
	return nil
}

// allOf reports whether what signs and each leaf of this host is of the authorities that are to sign.
func (k *certs) allOf(r *cluster.Rotation) bool {
	now := k.told()
	for _, c := range r.Authorities {
		a, has := now.Of(c.Name)
		if want := r.Signs(c).SHA256; !has || a.Signs != want || slices.ContainsFunc(a.Leaves, func(l string) bool { return l != want }) {
			return false
		}
	}
	return true
}

// use takes the authorities as they lie on the disk now, and issues what is to be issued anew.
func (k *certs) use(ctx context.Context) error {
	k.follows.owes = true
	if err := k.reread(); err != nil {
		return err
	}
	if err := k.renew(ctx); err != nil {
		return err
	}
	k.epoch.Add(1)
	k.follows.redial()
	k.follows.owes = false
	return nil
}

// told are the facts for the leader.
func (k *certs) told() *cluster.HostAuthorities {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.facts
}

// tell makes the facts anew, and says whether they changed. The caller holds writing.
func (k *certs) tell() (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cas == nil {
		return false
	}
	out := &cluster.HostAuthorities{Daemons: k.daemons != nil, Etcd: k.etcdTLS, Problem: k.follows.problem}
	if r := k.follows.done; r != nil {
		out.Rotation, out.Phase, out.Undo = r.ID, r.Phase, r.Undo
	}
	switch {
	case k.given:
		out.Problem = "its certificates and authorities come from --leaves-dir: whoever renews that directory rotates them"
	case out.Problem == "":
		if err := unix.Access(k.pkiDir, unix.W_OK); err != nil {
			out.Problem = fmt.Sprintf("its daemon cannot write into %s (%v); where a former release made its unit, run etcdadm init or join again there, then systemctl restart etcdadm", k.pkiDir, err)
		}
	}
	for _, a := range k.cas.All() {
		out.All = append(out.All, k.authority(a))
	}
	slices.SortFunc(out.All, func(a, b cluster.HostAuthority) int { return strings.Compare(a.Name, b.Name) })
	changed = !out.Equal(k.facts)
	k.facts = out
	return changed
}

// authority is one of the facts; the caller holds mu.
func (k *certs) authority(a *pki.Authority) cluster.HostAuthority {
	out := cluster.HostAuthority{Name: a.Name(), Trusts: slices.Sorted(slices.Values(a.Fingerprints()))}
	if s := a.Signing(); s != nil {
		out.Signs = pki.Fingerprint(s)
	}
	if r := k.follows.done; r != nil && !r.Undo { // else no key of the next one is needed
		for _, c := range r.Authorities {
			if c.Name == a.Name() {
				out.Keys = []string{c.Next.SHA256} // it was not followed without it
			}
		}
	}
	for name, leaf := range k.leaves {
		if signerOfLeaf(name) != a.Name() {
			continue
		}
		by := ""
		if s := a.SignerOf(leaf); s != nil {
			by = pki.Fingerprint(s)
		}
		out.Leaves = append(out.Leaves, by)
	}
	slices.Sort(out.Leaves)
	out.Leaves = slices.Compact(out.Leaves)
	return out
}

// signerOfLeaf is the authority of a leaf by the leaf's name.
func signerOfLeaf(name string) string {
	switch name {
	case leafDaemon, leafOperator:
		return pki.ManagerCA
	case leafPeer:
		return pki.PeersCA
	}
	return pki.ClientsCA
}
