// Package open opens an object store by its URL. It is the one place that knows which drivers this build has.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/azure"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/gs"
	"etcdadm.io/internal/blob/kubernetes"
	"etcdadm.io/internal/blob/memory"

	"etcdadm.io/internal/blob/s3"
)

// Options say how a store is opened.
type Options struct {
	// Create makes the directory of a file store, or the ConfigMaps of one in Kubernetes, that is not there. See file.Options.
	Create bool
	// ReadOnly accepts a store that can only be read.
	ReadOnly bool
	// Anew is a number of the caller's own where the environment was changed for this opening:
	// it joins none that may have read the one from before. Zero: any will do.
	Anew uint64
	// Given are the variables by which a store across a network is reached, in place of this process's environment, files and
	// machine: for a program that opens stores of others. See remote.Options.Given. Nil: the environment says.
	Given map[string]string
}

// known names all schemes, for an error about one that is not among them.
const known = "file://, mem://, s3://, gs://, azureblob://, do://, linode://, hos://, scw:// and kubernetes://"

// Open opens the store of a URL:
//
//	file:///absolute/path   a directory; %20 and the like are decoded
//	mem://                  a new empty store in this process, gone with it; for trying things out
//	azureblob://…           Azure Blob Storage: container/folder, or account/container/folder (package azure)
//	gs://bucket/folder      Google Cloud Storage (package gs)
//	s3://bucket/folder      Amazon S3, or an S3-compatible server; also do://, linode://, hos:// and scw:// (package s3)
//	kubernetes://ns/name    two ConfigMaps, for a control record (package kubernetes)
//
// Errors are *blob.Error, with a hint where there is one, and repeat nothing of a URL that could be a secret. Open ends with ctx.
func Open(ctx context.Context, storeURL string, opts Options) (blob.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch scheme, _, _ := strings.Cut(strings.ToLower(storeURL), "://"); {
	case scheme == "file", scheme == "mem", opts.Given != nil: // the first ends with ctx by itself, the others wait for no file
		return openNow(ctx, storeURL, opts)
	default:
		return openBeside(ctx, scheme, storeURL, opts)
	}
}

// openings are those under way: one whose files stand still is waited for by whoever asks for that store next.
var openings singleflight.Group

// anew are the openings with Options.Anew that have not ended. Each stands on its own, so that
// no more than anewMost of them are left waiting by a hung mount.
var anew atomic.Int32

const anewMost = 8

// errStill says what the opening of a store across a network waits for: nothing is sent yet.
var errStill = errors.New("a file that configures it has not answered")

// openBeside waits for an opening until ctx ends. It reads files that variables and the URL name, for certificates and the like,
// and the kernel calls nothing off on a hung mount.
func openBeside(ctx context.Context, scheme, storeURL string, opts Options) (blob.Store, error) {
	still := func(err error) error {
		return refuse(scheme+"://…", fmt.Errorf("%w: %w", errStill, err), "look at the disks and mounts of the files that the AWS_, AZURE_ and GOOGLE_ variables name, and ca= in the store's URL")
	}
	if opts.Anew != 0 && anew.Add(1) > anewMost {
		anew.Add(-1)
		return nil, still(fmt.Errorf("%d openings wait for it", anewMost))
	}
	opened := openings.DoChan(fmt.Sprintf("%+v %s", opts, storeURL), func() (any, error) {
		if opts.Anew != 0 {
			defer anew.Add(-1)
		}
		return openNow(context.WithoutCancel(ctx), storeURL, opts)
	})
	select {
	case o := <-opened:
		store, _ := o.Val.(blob.Store)
		return store, o.Err
	case <-ctx.Done():
		return nil, still(ctx.Err())
	}
}

func openNow(ctx context.Context, storeURL string, opts Options) (blob.Store, error) {
	given := s3.Options{Given: opts.Given}
	l, err := parse(storeURL, given)
	if err != nil {
		return nil, err
	}
	if opts.Given != nil && !l.remote() {
		return nil, refuse(l.scheme+"://…", errors.New("it is a store of one machine or one Kubernetes"), "name one that others reach, too, such as s3://bucket/folder")
	}
	switch l.scheme {
	case "file":
		return opened(file.Open(ctx, l.path, file.Options{Create: opts.Create, ReadOnly: opts.ReadOnly}))
	case "mem":
		return memory.New(), nil
	case "azureblob":
		return opened(azure.Open(ctx, storeURL, given))
	case "gs":
		return opened(gs.Open(ctx, storeURL, given))
	case "s3":
		return opened(s3.Open(ctx, storeURL, given))
	case kubernetes.Scheme:
		return opened(kubernetes.Open(ctx, storeURL, kubernetes.Options{Create: opts.Create}))
	}
	return nil, refuse(l.scheme+"://…", errors.New("no driver"), "")
}

// opened makes no store of a pointer that is nil.
func opened[S blob.Store](store S, err error) (blob.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Credentialed tells whether a store of this URL asks who wants something of it, and the environment says.
func Credentialed(storeURL string) bool {
	l, err := parse(storeURL, s3.Options{})
	return err == nil && l.remote() // that in Kubernetes has files, which are read each time
}

// PodNamespace is the namespace of the pod in which this process runs, empty: it runs in none or that is not known, and the one that
// the URL of a store in Kubernetes names.
func PodNamespace(storeURL string) (pod, named string) {
	if !kubernetes.Is(storeURL) {
		return "", ""
	}
	return kubernetes.PodNamespace(storeURL)
}

// InKubernetes tells whether a URL is of a store in ConfigMaps: small, without the hosts' announcements, and read by many.
func InKubernetes(storeURL string) bool { return kubernetes.Is(storeURL) }

// Credential tells whether a variable says who asks a store, and not where that is: one
// that is opened anew with another value is the same store.
func Credential(name string) bool {
	return slices.Contains(s3.Credentials, name) || slices.Contains(gs.Credentials, name) || slices.Contains(azure.Credentials, name)
}

// places are the variables that say where a store is, beside its URL and what is a credential.
var places = []string{
	"S3_ENDPOINT", "S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE",
	"AZURE_STORAGE_ACCOUNT", "STORAGE_EMULATOR_HOST", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
}

// Variable tells whether a variable is part of how a store is reached, so that every host of a cluster needs it.
func Variable(name string) bool { return Credential(name) || slices.Contains(places, name) }

// Environment are the variables of an environment, as os.Environ gives it, by which a store is reached.
func Environment(environ []string) map[string]string {
	out := map[string]string{}
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" && Variable(name) {
			out[name] = value
		}
	}
	return out
}

// CheckURL tells what is wrong with a URL, without opening anything.
func CheckURL(storeURL string) error {
	_, err := parse(storeURL, s3.Options{})
	return err
}

// location is a URL that this build has a driver for.
type location struct {
	scheme string // s3 for all that are like it
	path   string // of a file store: absolute and clean
}

// remote tells whether it is a bucket, or the like.
func (l location) remote() bool {
	return l.scheme != "file" && l.scheme != "mem" && l.scheme != kubernetes.Scheme
}

func parse(storeURL string, given s3.Options) (location, error) {
	const example = "write it like file:///var/backups/etcd or s3://bucket/folder"
	if storeURL == "" {
		return location{}, refuse("without a URL", errors.New("the URL is empty"), example)
	}
	scheme, rest, ok := strings.Cut(storeURL, "://")
	if !ok {
		if strings.HasPrefix(storeURL, "/") && !strings.ContainsFunc(storeURL, unprintable) {
			return location{}, refuse(quote(storeURL), errors.New("this is a path, and a URL is needed"), "write file://"+storeURL)
		}
		return location{}, refuse("of this URL", errors.New("it has no scheme"), example)
	}
	scheme = strings.ToLower(scheme)
	switch {
	case scheme == "file":
		return parseFile(rest)
	case scheme == "mem":
		if strings.Trim(rest, "/") != "" {
			return location{}, refuse("mem://…", errors.New("a store in memory has no name: it is a new one each time"), "write mem://")
		}
		return location{scheme: scheme}, nil
	case s3.Services[scheme].Name != "":
		return location{scheme: "s3"}, s3.Check(storeURL, given)
	case scheme == "azureblob":
		return location{scheme: scheme}, azure.Check(storeURL, given)
	case scheme == "gs":
		return location{scheme: scheme}, gs.Check(storeURL, given)
	case scheme == kubernetes.Scheme:
		return location{scheme: scheme}, kubernetes.Check(storeURL)
	case scheme == "swift":
		return location{}, refuse("swift://…", errors.New("OpenStack Swift is not supported by its own protocol"),
			"use the S3 API of the same object store: s3:// with S3_ENDPOINT, and EC2 credentials of the project")
	}
	if scheme == "" || strings.ContainsFunc(scheme, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789+-.", r) }) {
		return location{}, refuse("of this URL", errors.New("it has no valid scheme"), example)
	}
	return location{}, refuse(quote(scheme+"://")+"…", errors.New("unknown scheme"), "the schemes are "+known)
}

func parseFile(rest string) (location, error) {
	if strings.ContainsFunc(rest, unprintable) {
		return location{}, refuse("file://…", errors.New("the path has characters that can not be printed"), "write them as %XX")
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		return location{}, refuse(quote("file://"+rest[:i]+"…"), fmt.Errorf("a directory takes no %q part", rest[i]), "write %3F for a question mark in a path and %23 for a hash")
	}
	if local, ok := strings.CutPrefix(rest, "localhost/"); ok {
		rest = "/" + local
	}
	if !strings.HasPrefix(rest, "/") {
		advice := "write three slashes, as file:///var/backups/etcd"
		if rest != "" {
			advice = "write file:///" + strings.TrimLeft(rest, "./") + " if that is the absolute path"
		}
		return location{}, refuse(quote("file://"+rest), errors.New("the path is not absolute"), advice)
	}
	decoded, err := url.PathUnescape(rest)
	if err != nil {
		return location{}, refuse(quote("file://"+rest), errors.New("a % in the path is not followed by two hexadecimal digits"), "write %25 for a percent sign")
	}
	if strings.ContainsRune(decoded, 0) {
		return location{}, refuse("file://…", errors.New("the path has a NUL character"), "")
	}
	clean := path.Clean(decoded)
	if clean == "/" {
		return location{}, refuse("file:///", errors.New("the root directory can not be a store"), "name a directory of its own, as file:///var/backups/etcd")
	}
	return location{scheme: "file", path: clean}, nil
}

func unprintable(r rune) bool { return r < 0x20 || r == 0x7f }

func quote(s string) string { return fmt.Sprintf("%q", s) }

func refuse(object string, err error, advice string) error {
	return &blob.Error{Op: "open", Object: "store " + object, Err: err, Advice: advice}
}
