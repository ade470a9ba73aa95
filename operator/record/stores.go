package record

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"strings"
	"sync"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/control"
	"k8s.io/apimachinery/pkg/types"
)

// Stores are the object stores in which clusters on bare hosts have their records. Each is kept open, so that connections,
// access tokens and what has not changed are not got anew with each look. The zero value is ready.
type Stores struct {
	mu  sync.Mutex
	all map[types.UID]*outside
}

type outside struct {
	url    string
	given  map[string]string
	store  blob.Store
	folder *control.Folder
}

// Open gives the record of an EtcdCluster in the store of a URL, by credentials that are given and by nothing else.
//
// Errors are for people, and repeat no secret.
func (s *Stores) Open(ctx context.Context, of types.UID, url string, given map[string]string) (*control.Folder, error) {
	s.mu.Lock()
	o := s.all[of]
	s.mu.Unlock()
	if o == nil || o.url != url || !maps.Equal(o.given, given) {
		store, err := open.Open(ctx, url, open.Options{Given: given})
		if err != nil {
			return nil, err
		}
		o = &outside{url, given, store, control.New(store, "")}
	}
	in, _, _, err := o.folder.ReadIntent(ctx)
	if errors.Is(err, control.ErrOtherCluster) { // an EtcdCluster names a store, and no cluster
		o = &outside{o.url, o.given, o.store, control.New(o.store, in.Name)}
		err = nil
	}
	if err != nil && !errors.Is(err, control.ErrMalformed) { // that one is for who reads it
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[types.UID]*outside{}
	}
	s.all[of] = o
	return o.folder, nil
}

// Forget drops what is kept for an EtcdCluster that is gone.
func (s *Stores) Forget(of types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, of)
}

// Words are an error about a store, with what a person can do about it, in one line.
func Words(err error) string {
	words, advice := err.Error(), ""
	if told, is := errors.AsType[*blob.Error](err); is {
		advice = told.Advice
	}
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is { // a store's own advice is for who has its host's files
		advice = "put the authority's certificate into the Secret, as " + remote.GivenCA
	}
	if advice != "" {
		words += ": " + advice
	}
	return strings.Join(strings.Fields(words), " ")
}
