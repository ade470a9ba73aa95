package removal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/setup"
)

// Destruction is what a destruction of the whole cluster would do. It changes nothing.
//
// It takes no way of its own: a last backup, then every other member is removed through raft, as a person's step, upon
// which its host stops its etcd and sets the data aside; and then this host, which has the last member, is reset.
type Destruction struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host"` // this one, which goes last
	// Others are the other members, in the order in which they go.
	Others []OtherMember `json:"others"`
	// Hindrance is why it cannot be begun; nil: nothing is in the way.
	Hindrance *Hindrance `json:"hindrance,omitempty"`
	// Last is what is taken away on this host.
	Last Plan `json:"last"`
}

// OtherMember is a member on another host.
type OtherMember struct {
	ID   cluster.MemberID `json:"id"`
	Host cluster.HostID   `json:"host,omitempty"`
	Up   bool             `json:"up,omitempty"`
}

// Destroyed is what came of it.
type Destroyed struct {
	Done
	// Backup is the name of the last backup, and At where it lies; empty: none was wanted.
	Backup string `json:"backup,omitempty"`
	At     string `json:"backupAt,omitempty"`
}

// Refused is an error where it cannot be begun. Nothing was changed.
func (d Destruction) Refused() error {
	if d.Hindrance == nil {
		return nil
	}
	err := ErrUnsafe
	if d.Hindrance.Kind == Unreachable {
		err = ErrUnreachable
	}
	return &Error{Problem: d.Hindrance.Why, Err: err, Advice: d.Hindrance.Advice}
}

const eachByForce = "to end what is left of the cluster: etcdadm reset --force on each of its hosts"

// LookToDestroy finds out what a destruction would do.
//
// Errors: setup.ErrNotSetUp in the chain; those of Look.
func (h *Host) LookToDestroy(ctx context.Context) (Destruction, error) {
	p, err := h.Look(ctx, Options{Force: true})
	if err != nil {
		return Destruction{}, err
	}
	if p.Host == "" {
		return Destruction{}, &Error{Problem: "nothing can be destroyed from here", Err: setup.ErrNotSetUp, Advice: "run it on a host of the cluster"}
	}
	if p.Again && !p.job.Destroys {
		return Destruction{}, &Error{Problem: fmt.Sprintf("a reset of host %s was begun and is not finished", p.Host), Err: ErrUnsafe, Advice: "finish it: etcdadm reset; then run this on a host of the cluster"}
	}
	d := Destruction{Cluster: p.Cluster, Host: p.Host, Last: p}
	switch {
	case p.job.Gone:
		return d, nil // all that is left is on this machine
	case p.observation == nil:
		d.Hindrance = p.Hindrance
		if d.Hindrance == nil {
			d.Hindrance = &Hindrance{Unreachable, "no agent of this machine was ever part of a cluster", "run it on a host of the cluster"}
		}
		d.Hindrance.Advice = "run it again once the cluster answers; " + eachByForce
		return d, nil
	}
	roster, seen := p.observation.Roster()
	if !seen || !roster.Linearizable {
		d.Hindrance = &Hindrance{NoQuorum, "the cluster has no quorum, so no member can be removed", "etcdadm status says what to do; " + eachByForce}
		return d, nil
	}
	mine := false
	for _, s := range roster.Seats {
		if p.Member != nil && s.ID == p.Member.ID {
			mine = s.Up && !s.Learner
			continue
		}
		d.Others = append(d.Others, OtherMember{s.ID, s.HostID, s.Up})
	}
	// Those that are down go first: every other voter has to be up before one that is up is taken away.
	slices.SortStableFunc(d.Others, func(a, b OtherMember) int {
		switch {
		case a.Up == b.Up:
			return 0
		case b.Up:
			return -1
		}
		return 1
	})
	if !mine {
		d.Hindrance = &Hindrance{Refused, "the member of this host does not serve as a voter, and it has to be the last one", "run it on a host whose voter is up: etcdadm status"}
	}
	return d, nil
}

// Destroy ends the cluster. Interrupted, it is looked at and done again, and goes on.
//
// Errors: as of Reset.
func (h *Host) Destroy(ctx context.Context, d Destruction, o Options) (Destroyed, error) {
	out := Destroyed{Done: Done{Cluster: d.Cluster, Host: d.Host}}
	if err := d.Refused(); err != nil {
		return out, err
	}
	j := d.Last.job
	j.Destroys = true
	if !j.Gone {
		if err := h.saveJob(j); err != nil {
			return out, err
		}
		if err := h.endOthers(ctx, d, o); err != nil {
			return out, fmt.Errorf("%w; run the command again to go on", err)
		}
	}
	p := d.Last
	p.Hindrance = &Hindrance{Kind: LastMember}
	p.Left = nil
	for _, c := range j.Others {
		p.Left = append(p.Left, Left{fmt.Sprintf("the agent of host %s, which runs no etcd any more", c.Host), "etcdadm reset --force"})
	}
	done, err := h.Reset(ctx, p, Options{Force: true})
	out.Done, out.Backup = done, j.Backup
	if out.Backup != "" {
		out.At = h.backupAt(j)
	}
	return out, err
}

// backupAt is where the last backup lies when the data directory is set aside.
func (h *Host) backupAt(j *job) string {
	for _, one := range j.Items {
		at := filepath.Join(one.To, "kept", j.Backup)
		if one.Kind == setup.KindData && one.To != "" && j.Here && there(at) {
			return at
		}
	}
	if _, without := kept.DataDir(j.Store); without {
		return filepath.Join(kept.OwnDir(j.DataDir), j.Backup) + " on other hosts"
	}
	return j.Store
}

// copyHere copies the last backup of a cluster without a store to this host's disk: the backup may be on a majority of
// other hosts only. A copy that is there already is verified. The meta is written last, after the data was compared
// with the manifest, because a backup exists as soon as its meta does.
func (h *Host) copyHere(ctx context.Context, j *job, c Cluster, most time.Duration) (here bool, err error) {
	if _, without := kept.DataDir(j.Store); !without {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	own, err := kept.Own(ctx, j.DataDir)
	if err != nil {
		return false, err
	}
	verify := func() error {
		_, err := backupstore.New(own).Verify(ctx, backup.Name(j.Backup), backupstore.Identities{})
		return err
	}
	if verify() == nil {
		return true, nil
	}
	b, err := backupstore.New(c.Kept()).Get(ctx, backup.Name(j.Backup))
	switch {
	case err != nil:
		return false, err
	case b.Manifest == nil || b.Manifest.Stored.IsZero():
		return false, fmt.Errorf("backup %s has no manifest to compare a copy with", j.Backup)
	}
	for _, file := range []string{b.File, backup.FileManifest, backup.FileMeta} {
		copied, err := copyObject(ctx, c.Kept(), own, j.Backup+"/"+file)
		if err == nil && file == b.File && copied != b.Manifest.Stored {
			err = fmt.Errorf("%w: %s is not what the manifest says", backupstore.ErrDamaged, file)
		}
		if err != nil {
			return false, err
		}
	}
	err = verify()
	return err == nil, err
}

// copyObject copies a file over what is there, and gives the size and the sum of what passed.
func copyObject(ctx context.Context, from, to blob.Store, key string) (passed backup.Content, err error) {
	object, err := from.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return passed, err
	}
	defer object.Body.Close()
	sum := sha256.New()
	_, err = to.Put(ctx, key, io.TeeReader(object.Body, sum), blob.Any)
	return backup.Content{Size: object.Size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// endOthers takes the last backup and removes every other member.
func (h *Host) endOthers(ctx context.Context, d Destruction, o Options) error {
	j := d.Last.job
	c, err := h.open(j, false)
	if err != nil {
		return err
	}
	defer c.Close()
	if !o.NoBackup && j.Backup == "" {
		j.Store = d.Last.observation.Store.URL
		if j.Backup, err = h.lastBackup(ctx, j, c, orElse(o.Wait, DefaultWait)); err != nil {
			return err
		}
		if err := h.saveJob(j); err != nil {
			return err
		}
		h.say("the last backup is %s", j.Backup)
	}
	if j.Backup != "" { // also in a run after one that was interrupted
		if j.Here, err = h.copyHere(ctx, j, c, orElse(o.Wait, DefaultWait)); err != nil {
			h.say("this host has no good copy of the last backup, which stays on other hosts: %s", oneLine(err))
		}
		if err := h.saveJob(j); err != nil {
			return err
		}
	}
	for _, m := range d.Others {
		p := d.Last
		p.Member = &Member{ID: m.ID}
		if err := h.leave(ctx, p, Options{NoBackup: true, Wait: o.Wait}); err != nil {
			return err
		}
	}
	return h.awaitAside(ctx, j, c)
}

// lastBackup has the leading daemon take a backup, and gives its name.
func (h *Host) lastBackup(ctx context.Context, j *job, c Cluster, most time.Duration) (string, error) {
	h.say("taking the last backup; this waits %s at most", most)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	folder, err := h.folder(ctx, j, c)
	if err != nil {
		return "", err
	}
	name, err := folder.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup})
	if err != nil {
		return "", fmt.Errorf("ask for the last backup: %w", err)
	}
	var last error
	for {
		taken, err := backupFor(ctx, c, folder, name)
		if taken != "" || errors.Is(err, ErrUnsafe) {
			return taken, err
		}
		if err != nil {
			last = err
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return "", err
		} else if err != nil {
			return "", &Error{Problem: fmt.Sprintf("the last backup was not taken within %s", most), Err: errors.Join(ErrWaiting, last), Advice: "etcdadm status says what it waits for; run it again, with a longer --wait, or with --no-backup"}
		}
	}
}

// backupFor is the backup that was taken for a command; empty: it was not, yet.
//
// Errors: ErrUnsafe when it will not be.
func backupFor(ctx context.Context, c Cluster, folder *control.Folder, command string) (string, error) {
	const advice = "etcdadm status says why; --no-backup goes on without it"
	r, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if r.Observation != nil {
		for i := range r.Observation.Hosts {
			switch t := r.Observation.Hosts[i].Taken; {
			case t == nil || t.Command != command || t.Running:
			case t.Backup != nil:
				return t.Backup.Name, nil
			case t.Error != "":
				return "", &Error{Problem: "the last backup was not taken: " + t.Why(), Err: ErrUnsafe, Advice: advice}
			}
		}
	}
	all, err := folder.EndedCommands(ctx)
	if i := slices.IndexFunc(all, func(e control.Ended) bool { return e.Name == command && e.Result != "done" }); i >= 0 {
		return "", &Error{Problem: "the last backup was not taken: " + all[i].Reason, Err: ErrUnsafe, Advice: advice}
	}
	return "", err
}

// awaitAside waits until the hosts of the members that were removed have stopped their etcd and set its data aside. A host
// that does not answer does so when it is back, as long as anybody tells it: it is left behind.
func (h *Host) awaitAside(ctx context.Context, j *job, c Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, orElse(h.bounds.keep, keepTimeout))
	defer cancel()
	var still []cluster.HostID
	for {
		if r, err := c.Status(ctx); err == nil && r.Observation != nil {
			if still = carrying(r.Observation, j.Host); len(still) == 0 {
				return nil
			}
		}
		if err := waitFor(ctx, again); errors.Is(err, context.Canceled) {
			return err
		} else if err != nil {
			return &Error{Problem: fmt.Sprintf("not every host has set its data aside: %v", still), Err: ErrWaiting, Advice: "etcdadm status says what they wait for"}
		}
	}
}

// carrying are the hosts in sight, but for one, that have data of a member.
func carrying(o *cluster.Observation, but cluster.HostID) (out []cluster.HostID) {
	for i := range o.Hosts {
		if r := &o.Hosts[i]; r.Host != but && r.Carries() {
			out = append(out, r.Host)
		}
	}
	return out
}
