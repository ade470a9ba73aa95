package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// answerTimeout bounds a request. A try is two of them, and a third one for what is missing.
	answerTimeout = 10 * time.Second
	// saysAgain is how often the wait is told while it is for the same.
	saysAgain = time.Minute
)

// pauses between tries grow to 5 s.
var pauses = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 10, Cap: 5 * time.Second, Jitter: 0.1}

// sayer writes a line of the log.
type sayer func(line string, keysAndValues ...any)

// awaitAPI waits until the API server knows these kinds, and is what it knows: with that a manager is made without another request.
//
// A process that ended instead would be started again after pauses that grow to five minutes, and be away for as long after the
// outage. An outage later on ends the leading operator once, as it loses its Lease; the next one waits here.
func awaitAPI(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, kinds []client.Object, say sayer) (meta.RESTMapper, error) {
	config = rest.CopyConfig(config)
	config.Timeout = cmp.Or(config.Timeout, answerTimeout)
	config.Wrap(func(by http.RoundTripper) http.RoundTripper { return once{by} })
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	known, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, err
	}
	return known, await(ctx, say, func() error {
		for _, o := range kinds {
			if _, err := apiutil.IsObjectNamespaced(o, scheme, known); err != nil {
				return err
			}
		}
		return nil
	})
}

// await tries until it succeeds or the context ends, and says what it waits for: at first, when that changes, and once a minute.
func await(ctx context.Context, say sayer, try func() error) error {
	began, said, at := time.Now(), awaited(""), time.Time{}
	err := pauses.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		answer := make(chan error, 1)
		go func() { answer <- try() }() // discovery takes no context: where that ends, so does the process
		var err error
		select {
		case err = <-answer:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if err == nil {
			return true, nil
		}
		if what := awaits(err); what != said || time.Since(at) >= saysAgain {
			said, at = what, time.Now()
			say(string(what), "waited", time.Since(began).Round(time.Second).String(), "error", err.Error())
		}
		return false, nil
	})
	if err == nil && said != "" {
		say("the API server answers: the operator starts", "waited", time.Since(began).Round(time.Second).String())
	}
	return err
}

// once takes no Retry-After from answers: with it a request is sent again until its time is over, and what was answered is lost.
type once struct{ by http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.by.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// awaited is what has to come about before the operator can start.
type awaited string

const (
	anAnswer  awaited = "waiting for the API server: it does not answer"
	noError   awaited = "waiting for the API server: it answers with an error"
	trust     awaited = "waiting: the API server's certificate is not trusted. If this lasts, check the authority in the operator's kubeconfig or ServiceAccount"
	aToken    awaited = "waiting: the API server refuses the operator's token or certificate. If this lasts, check the operator's ServiceAccount or kubeconfig"
	discovery awaited = "waiting: the API server does not let the operator list its APIs. If this lasts, bind the ClusterRole system:discovery to the operator's account"
	aKind     awaited = "waiting: the API server does not have a kind that the operator needs. If this lasts, apply the CustomResourceDefinitions of this release"
)

// awaits tells the answers apart. Each of them can become a good one without a change of how the operator was started, so that none
// ends it:
//
//   - 401: a token that ended during a long outage is renewed by the kubelet after it, as is the authority; both are read again.
//   - 403: an API server on a fresh etcd makes the roles for discovery after it began to answer.
//   - a missing kind: definitions are applied beside the Deployment, and an API server that has just started does not tell of all yet.
//
// What cannot be read of a kubeconfig or a flag never comes to here, and ends the operator.
func awaits(err error) awaited {
	var status apierrors.APIStatus
	var untrusted *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		return aToken
	case apierrors.IsForbidden(err):
		return discovery
	case meta.IsNoMatchError(err):
		return aKind
	case errors.As(err, &untrusted):
		return trust
	case errors.As(err, &status):
		return noError
	}
	return anAnswer
}
