package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// reclaimAfter is how long a void has to lie there, as one host sees it, before a person may have it replaced: a recovery that put it
// makes its record a few seconds later or never, since the answers that it goes by are too old then (see keeper.Again).
const reclaimAfter = 10 * time.Second

// Reclaim puts the claim of a sealed record into its next place again, as a person says, where a recovery made it void and came to
// nothing, or the store was emptied before the record was there. It replaces what it has seen for reclaimAfter and nothing else; until
// then wait says so. The record then comes there as after any seal.
//
// The caller has made sure that no host keeps a record that was made again from the sealed one.
//
// Errors: ErrTaken; what the store says.
func (f *Follower) Reclaim(ctx context.Context, url, nonce string, dryRun bool) (wait bool, err error) {
	f.taking.Lock()
	defer f.taking.Unlock()
	n := f.File.Notes()
	p := n.Place
	if p == nil {
		p = n.Offer
	}
	doc := f.Newest(ctx)
	switch {
	case f.making:
		return false, errors.New("the record is being made again on this host")
	case p == nil || doc == nil || doc.Moved == nil || doc.Moved.To != p.Name:
		return false, errors.New("this host does not have the sealed record: run the command on a host that says record-moved")
	case shown(p.URL) != shown(url):
		return false, fmt.Errorf("the record was sealed to %s", shown(p.URL))
	}
	s, err := content(doc, f.Cluster)
	if err != nil {
		return false, err
	}
	store, err := f.reach(ctx, n, *p)
	if err != nil {
		return false, err
	}
	there, exists, tag, err := read(ctx, store)
	cond := blob.IfAbsent
	switch {
	case err != nil:
		return false, err
	case there != nil && !there.Void && there.Cluster == f.Cluster && there.From == doc.Record:
		return false, nil
	case there != nil && there.Cluster == f.Cluster && there.From == doc.Record:
		cond = blob.IfMatch(tag)
	case exists:
		return false, fmt.Errorf("%w: it has a created marker that is no void of this move", ErrTaken)
	}
	if err := s.alone(ctx, store); err != nil || dryRun {
		return false, err
	}
	if f.void.at.IsZero() || f.void.tag != tag {
		f.void.tag, f.void.at = tag, time.Now()
	}
	if passed(f.void.at) < reclaimAfter {
		return true, nil
	}
	data, err := json.Marshal(Claim{Nonce: nonce, Generation: 1, Cluster: f.Cluster, To: p.Name, From: doc.Record})
	if err != nil {
		return false, err
	}
	if _, err = blob.PutBytes(ctx, store, control.KeyIntent, data, cond); errors.Is(err, blob.ErrPreconditionFailed) {
		return true, nil // somebody wrote it: it is looked at anew
	}
	return false, err
}

// reach opens a place that this host has followed to, or an offered one.
func (f *Follower) reach(ctx context.Context, n Notes, p Place) (blob.Store, error) {
	if n.Place != nil {
		return f.there(ctx, p)
	}
	return f.Open(ctx, p.Offer)
}

// alone holds that nothing lies in the control folder that the sealed record does not have.
func (s *sealedBy) alone(ctx context.Context, store blob.Store) error {
	infos, err := store.List(ctx, control.Prefix)
	if err != nil {
		return err
	}
	for _, i := range infos {
		if _, ours := s.objects[i.Key]; !ours && i.Key != control.KeyIntent && !strings.HasPrefix(i.Key, control.Prefix+blob.ProbePrefix) {
			return fmt.Errorf("%w: it has %s", ErrTaken, i.Key)
		}
	}
	return nil
}
