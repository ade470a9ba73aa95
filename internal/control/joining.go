package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Joining is written down before the first member of ours joins a cluster that
// something else runs. After that only the joiners are added to it, until it is given
// up and begun anew. It takes the place of the record's voter sets as long as there is
// no record of ours: whoever goes on with it knows from it which members are to stay
// and which to go, and that a member in neither list is somebody else's doing.
type Joining struct {
	Cluster cluster.ClusterID `json:"cluster"`
	// Members is how many of ours there shall be before any other is removed.
	Members int `json:"members"`
	// Foreign are the members that were there.
	Foreign []cluster.Member `json:"foreign"`
	// Backup is that of the cluster before it was changed.
	Backup string `json:"backup,omitempty"`
	// Ours are the peer URLs of our hosts that join, or have joined, in that
	// order. Each is written before its member is added.
	Ours [][]string `json:"ours,omitempty"`
	// Promoted are the members of ours that were made voters, or are about to be:
	// written before that. None of them is started without its log.
	Promoted []cluster.MemberID `json:"promoted,omitempty"`
	// Former are those that were promoted in adoptions which were given up since.
	Former []cluster.MemberID `json:"former,omitempty"`
}

// Promoted is what host.Options.Promoted wants.
func (f *Folder) Promoted(ctx context.Context, m cluster.MemberID) (bool, error) {
	j, _, err := f.ReadJoining(ctx)
	if err == nil && j == nil {
		err = errNobodyJoins
	}
	if err != nil {
		return false, err
	}
	return slices.Contains(j.Promoted, m) || slices.Contains(j.Former, m), nil
}

var errNobodyJoins = errors.New("the store does not say that anybody joins")

// IsOurs is that the member is at the peer addresses of one of our hosts, with TLS or without.
func (j *Joining) IsOurs(m cluster.Member) bool {
	return slices.ContainsFunc(j.Ours, func(urls []string) bool { return cluster.SameAddresses(urls, m.PeerURLs) })
}

// IsForeign is that the member was there before the first of ours.
func (j *Joining) IsForeign(m cluster.Member) bool {
	return slices.ContainsFunc(j.Foreign, func(f cluster.Member) bool { return f.ID == m.ID })
}

// ReadJoining reads it; nil without error where there is none. The tag is for PutJoining.
func (f *Folder) ReadJoining(ctx context.Context) (*Joining, blob.ETag, error) {
	data, tag, err := blob.ReadAll(ctx, f.store, keyJoining, maxObject)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read who joins: %w", err)
	}
	var j Joining
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, "", malformed(keyJoining, "", err)
	}
	return &j, tag, nil
}

// PutJoining writes it over the one that was read with this tag; an empty tag: where
// there was none. ErrConflict: somebody else has written meanwhile, or the answer to
// an own earlier try was lost; read it again.
func (f *Folder) PutJoining(ctx context.Context, tag blob.ETag, j *Joining) error {
	cond := blob.IfAbsent
	if tag != "" {
		cond = blob.IfMatch(tag)
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write who joins: %w", err)
	}
	_, err = f.putOnCondition(ctx, keyJoining, data, cond)
	if errors.Is(err, blob.ErrPreconditionFailed) {
		return fmt.Errorf("write who joins: %w: %w", ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("write who joins: %w", err)
	}
	return nil
}
