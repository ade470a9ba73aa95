package remote

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"etcdadm.io/internal/blob"
)

// Location is a store URL: scheme://bucket/folder?parameter=value.
type Location struct {
	Scheme string
	Bucket string
	Prefix string            // of every key: empty, or ending with a slash
	Params map[string]string // no key without a value
}

// String gives the URL back, without its parameters.
func (l Location) String() string {
	return l.Scheme + "://" + l.Bucket + strings.TrimSuffix("/"+l.Prefix, "/")
}

// Key is the name of an object in the bucket. The error wraps blob.ErrInvalidKey.
func (l Location) Key(key string) (string, error) {
	if err := blob.ValidateKey(key); err != nil {
		return "", err
	}
	return l.whole(key)
}

// KeyPrefix is Key for the prefix of a listing.
func (l Location) KeyPrefix(prefix string) (string, error) {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return "", err
	}
	return l.whole(prefix)
}

func (l Location) whole(key string) (string, error) {
	if len(l.Prefix)+len(key) > blob.MaxKey {
		return "", fmt.Errorf("%w %.40q…: with the folder of the store it is longer than %d bytes", blob.ErrInvalidKey, key, blob.MaxKey)
	}
	return l.Prefix + key, nil
}

// Own is the key of an object by its name in the bucket; false for one that this store could not have written.
func (l Location) Own(name string) (string, bool) {
	key, ok := strings.CutPrefix(name, l.Prefix)
	return key, ok && blob.ValidateKey(key) == nil
}

// Parse reads a store URL. params lists the parameters that the driver knows. Errors are *blob.Error, and repeat nothing that
// could be a secret.
func Parse(storeURL string, params ...string) (Location, error) {
	scheme, rest, ok := strings.Cut(storeURL, "://")
	if !ok || strings.ContainsFunc(scheme, notInBucket) {
		return Location{}, &blob.Error{Op: "open", Object: "store of this URL", Err: errors.New("it has no valid scheme"), Advice: "write it like s3://bucket/folder"}
	}
	l := Location{Scheme: strings.ToLower(scheme), Params: map[string]string{}}
	refuse := func(err error, advice string) (Location, error) {
		return Location{}, &blob.Error{Op: "open", Object: "store " + l.Scheme + "://…", Err: err, Advice: advice}
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return refuse(errors.New("the URL has characters that can not be printed"), "write them as %XX")
	}
	if strings.Contains(rest, "#") {
		return refuse(errors.New("the URL has a # part, which means nothing"), "write %23 for a hash in a folder")
	}
	rest, query, _ := strings.Cut(rest, "?")
	bucket, folder, _ := strings.Cut(rest, "/")
	if strings.Contains(bucket, "@") {
		return refuse(errors.New("credentials do not belong into the URL, which is shown in logs"), "give them by the environment or a file")
	}
	if bucket == "" {
		return refuse(errors.New("the URL names no bucket"), "write it like "+l.Scheme+"://bucket/folder")
	}
	if strings.ContainsFunc(bucket, notInBucket) {
		return refuse(fmt.Errorf("%q can not be the name of a bucket", bucket), "write it like "+l.Scheme+"://bucket/folder")
	}
	l.Bucket = bucket
	folder, err := url.PathUnescape(strings.Trim(folder, "/"))
	if err != nil {
		return refuse(errors.New("a % in the folder is not followed by two hexadecimal digits"), "write %25 for a percent sign")
	}
	if folder != "" {
		l.Prefix = folder + "/"
		if err := blob.ValidateKey(folder); err != nil {
			return refuse(fmt.Errorf("the folder can not be used: %w", err), "")
		}
	}
	if err := l.parameters(query, params); err != nil {
		return refuse(err, "the parameters of "+l.Scheme+":// are "+strings.Join(params, ", "))
	}
	return l, nil
}

func (l Location) parameters(query string, known []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after the ? can not be read")
	}
	for name, value := range values {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%.40q is not a parameter of this store", name)
		}
		if len(value) != 1 || value[0] == "" {
			return fmt.Errorf("the parameter %s takes one value", name)
		}
		l.Params[name] = value[0]
	}
	return nil
}

func notInBucket(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
}

// Endpoint checks the URL of a server. The error is a sentence, and repeats nothing that could be a secret.
func Endpoint(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the endpoint is not a URL")
	case u.User != nil:
		return nil, errors.New("credentials do not belong into the endpoint's URL, which is shown in logs")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the endpoint's URL does not begin with http:// or https://")
	case u.Host == "":
		return nil, errors.New("the endpoint's URL names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint's URL has a part after ? or #")
	}
	return u, nil
}
