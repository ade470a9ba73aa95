package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// Scheme is that of the store's URL.
const Scheme = "kubernetes"

// Account is where Kubernetes puts the credentials of a pod's service account.
const Account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Is tells whether a URL is of a store like this.
func Is(storeURL string) bool { return strings.HasPrefix(strings.ToLower(storeURL), Scheme+"://") }

// The parameters of a store's URL.
const (
	paramServer  = "server"
	paramAccount = "account"
)

var (
	namespaces = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	clusters   = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,238}[a-z0-9])?$`)
)

// config is what a URL says.
type config struct {
	namespace, cluster string
	server             *url.URL // nil: the URL names none
	account            string   // the directory with token and ca.crt
}

// Check tells what is wrong with a URL, without an environment. Errors are *blob.Error.
func Check(storeURL string) error {
	_, err := parse(storeURL)
	return err
}

func parse(storeURL string) (config, error) {
	l, err := remote.Parse(storeURL, paramServer, paramAccount)
	if err != nil {
		return config{}, err
	}
	refuse := func(err error, advice string) (config, error) {
		return config{}, &blob.Error{Op: "open", Object: "store " + l.String(), Err: err, Advice: advice}
	}
	c := config{namespace: l.Bucket, cluster: strings.TrimSuffix(l.Prefix, "/"), account: filepath.Clean(cmp.Or(l.Params[paramAccount], Account))}
	if !namespaces.MatchString(c.namespace) || !clusters.MatchString(c.cluster) {
		return refuse(fmt.Errorf("%q and %q are not the names of a namespace and of a cluster in it", c.namespace, c.cluster), "write it like kubernetes://namespace/cluster")
	}
	if !filepath.IsAbs(c.account) {
		return refuse(errors.New("the directory of the account is not absolute"), "write account=/DIR, where /DIR has the files token and ca.crt")
	}
	if raw := l.Params[paramServer]; raw != "" {
		if c.server, err = remote.Endpoint(raw); err != nil {
			return refuse(err, "write server=https://ADDRESS:PORT, of the API server")
		}
	}
	return c, nil
}

// atHome takes the API server that a pod's environment names, where the URL names none.
func (c config) atHome() (config, error) {
	if c.server != nil {
		return c, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return c, &blob.Error{
			Op: "open", Object: "store " + c.String(), Err: errors.New("there is no API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"),
			Advice: "outside of a pod name it in the URL: " + c.String() + "?server=https://ADDRESS:PORT&account=DIR, where DIR has the files token and ca.crt of a service account",
		}
	}
	c.server = &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}
	return c, nil
}

func (c config) String() string { return Scheme + "://" + c.namespace + "/" + c.cluster }
