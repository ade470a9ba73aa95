package remote

import (
	"context"
	"errors"
	"slices"
	"strings"

	"etcdadm.io/internal/blob"
)

// errEndless: a page names itself as the next one.
var errEndless = errors.New("the store does not say how its listing goes on")

// List gathers the pages of a listing, sorted by key. page answers for the names that begin
// with whole, from a token on ("" at first), with the objects under their names in the bucket
// and the next page's token, "" after the last. What could not be a key is not this store's
// and left out: a console makes an object "folder/" of a folder. Whoever hears the listing is told of each page.
func (l Location) List(ctx context.Context, prefix string, page func(whole, token string) (objects []blob.Info, next string, err error)) ([]blob.Info, error) {
	whole, err := l.KeyPrefix(prefix)
	if err != nil {
		return nil, err
	}
	var infos []blob.Info
	for token := ""; ; {
		objects, next, err := page(whole, token)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			var ours bool
			if o.Key, ours = l.Own(o.Key); ours && strings.HasPrefix(o.Key, prefix) {
				infos = append(infos, o)
			}
		}
		blob.Heard(ctx, len(infos))
		if next == "" {
			break
		}
		if next == token {
			return nil, &blob.Error{Op: "use", Object: "store " + l.String(), Err: errEndless}
		}
		token = next
	}
	// Stores sort by bytes; not every server does.
	slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}
