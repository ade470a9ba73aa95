package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"etcdadm.io/internal/blob"
)

// Options say how a store is used. The zero value is right outside of tests.
type Options struct {
	// Stall is the time after which a connection on which nothing moves is cut; 0: that of the package.
	Stall time.Duration
	// Given, where it is not nil, are the variables that say how the store is reached and who asks. Then nothing of this
	// process's environment, of its files or of its machine is looked at for that: they are not those of who gave the URL.
	Given map[string]string
}

// GivenCA is the key in Options.Given of PEM certificates to trust beside the system's.
const GivenCA = "ca.crt"

// Getenv is a variable: a given one, or that of the environment.
func (o Options) Getenv(name string) string {
	if o.Given != nil {
		return o.Given[name]
	}
	return os.Getenv(name)
}

// Parse is [Parse]. Where all is given, a URL names no file of this machine, and no place to send the credentials to: who gave
// it may be another than who gave them.
func (o Options) Parse(storeURL string, params ...string) (Location, error) {
	l, err := Parse(storeURL, params...)
	why, advice := "", ""
	switch {
	case err != nil || o.Given == nil:
	case l.Params["ca"] != "":
		why, advice = "ca= names a file, and none is read here", "give the certificates themselves, as "+GivenCA
	case l.Params["endpoint"] != "":
		why, advice = "endpoint= in the URL would send the credentials elsewhere", "give the endpoint with them, as S3_ENDPOINT or AZURE_STORAGE_ENDPOINT"
	}
	if why != "" {
		return Location{}, &blob.Error{Op: "open", Object: "store " + l.String(), Err: errors.New(why), Advice: advice}
	}
	return l, err
}

// Trust makes a transport trust what is given, or the file that the URL names; empty: it names none.
func (o Options) Trust(t *http.Transport, caFile string) error {
	switch {
	case o.Given[GivenCA] != "":
		return trust(t, []byte(o.Given[GivenCA]), GivenCA)
	case caFile == "":
		return nil
	}
	return Trust(t, caFile)
}

// Transport is a new one, tuned. A caFile that is not empty holds PEM certificates to trust beside the system's.
func (o Options) Transport(caFile string) (*http.Transport, error) {
	t := &http.Transport{}
	Tune(t, o.Stall)
	return t, o.Trust(t, caFile)
}

// Driver does what one service does, with objects by their names in its bucket. Its errors are the sentinels of package blob or
// for people.
type Driver interface {
	// Fetch opens an object, unless it has that ETag; empty: it has none.
	Fetch(ctx context.Context, name string, unless blob.ETag) (*blob.Object, error)
	// Write makes an object. unsure: an attempt before the last one may have taken effect.
	Write(ctx context.Context, name string, body io.Reader, cond blob.Condition) (tag blob.ETag, unsure bool, err error)
	// Page is one answer to a listing; see [Location.List].
	Page(ctx context.Context, whole, token string) (found []blob.Info, next string, err error)
	// Remove removes an object; that there was none may be an error.
	Remove(ctx context.Context, name string) error
}

// Bucket makes a store of a driver: what is the same in all of them.
type Bucket struct {
	Place  Location
	URL    string // for people
	Driver Driver
	// Refuse says why the service cannot keep a key that others keep; nil: it keeps all.
	Refuse func(key string) error
}

// String gives the store's URL, without parameters.
func (b *Bucket) String() string { return b.URL }

// Get implements blob.Store. A transfer that breaks off is taken up again, of the same version.
func (b *Bucket) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	name, err := b.name(key)
	var object *blob.Object
	if err == nil {
		object, err = b.Driver.Fetch(ctx, name, opts.IfNoneMatch)
	}
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return object, nil
}

// Put implements blob.Store.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	tag, err := b.put(ctx, key, body, cond)
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, err)
	}
	return tag, nil
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	name, err := b.name(key)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	tag, unsure, err := b.Driver.Write(ctx, name, body, cond)
	if _, match := cond.Match(); match && errors.Is(err, blob.ErrNotFound) {
		err = fmt.Errorf("%w: there is no object", blob.ErrPreconditionFailed)
	}
	if unsure && (errors.Is(err, blob.ErrPreconditionFailed) || errors.Is(err, blob.ErrNotFound)) {
		err = b.Failed(errors.New("the answer to the write was lost, and it may have taken effect: read the object to find out"))
	}
	return tag, err
}

// List implements blob.Store.
func (b *Bucket) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	infos, err := b.Place.List(ctx, prefix, func(whole, token string) ([]blob.Info, string, error) {
		return b.Driver.Page(ctx, whole, token)
	})
	if err != nil {
		return nil, blob.ListError(b, prefix, err)
	}
	return infos, nil
}

// Delete implements blob.Store. Where the bucket keeps versions or what was deleted, the older ones stay.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	name, err := b.name(key)
	if err == nil {
		err = b.Driver.Remove(ctx, name)
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

func (b *Bucket) name(key string) (string, error) {
	if b.Refuse != nil {
		if err := b.Refuse(key); err != nil {
			return "", err
		}
	}
	return b.Place.Key(key)
}

// Try makes one request, and again as long as that can help; see [Try]. Errors are explained.
func (b *Bucket) Try(ctx context.Context, judge func(error) Verdict, explain func(error) error, do func(context.Context) error) (unsure bool, err error) {
	unsure, err = Try(ctx, judge, do)
	if err != nil {
		err = Ended(ctx, explain(err))
	}
	return unsure, err
}

// Failed is an error of the store.
func (b *Bucket) Failed(err error) error { return b.Advised(err, "") }

// Advised is one with what a person can do about it.
func (b *Bucket) Advised(err error, advice string) error {
	return &blob.Error{Op: "use", Object: "store " + b.URL, Err: err, Advice: advice}
}

// Forbidden is what the store, or the lack of credentials, does not allow.
func (b *Bucket) Forbidden(err error, advice string) error {
	return b.Advised(fmt.Errorf("%w: %w", blob.ErrForbidden, err), advice)
}

// ErrCredentials says that nothing was sent because there is nothing to authenticate with.
var ErrCredentials = errors.New("there are no usable credentials")

// ErrOtherPart says that the answer to a request for the rest of an object is something else.
var ErrOtherPart = errors.New("the store sends another part than the one that was asked for")

// Advice for what all services say.
const (
	AdviceBucket = "create the bucket, or correct its name in the store's URL"
	AdviceBusy   = "the store is overloaded, and is asked again later; if that lasts, see what else asks it so much, or have its limit raised"
)

// Judge is the verdict on an error: by the HTTP status of the answer; 0: there was none.
func Judge(err error, status int) Verdict {
	switch {
	case errors.Is(err, ErrCredentials):
		return Final
	case status != 0:
		return JudgeStatus(status)
	}
	return JudgeSilence(err)
}
