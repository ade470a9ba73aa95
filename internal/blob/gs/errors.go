package gs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/api/googleapi"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

const (
	caHow = "ca=FILE in the store's URL, or SSL_CERT_FILE=FILE"

	adviceCredentials = "set GOOGLE_APPLICATION_CREDENTIALS to a file of a service account, or run where the machine has one"
	adviceGiven       = "give GOOGLE_CREDENTIALS: the key of a service account, as JSON"
	adviceForbidden   = "grant this account roles/storage.objectAdmin on the bucket (storage.objects.get, list, create and delete), and on a machine of Google's the scope devstorage.read_write"
)

// judge tells whether another attempt can help, and whether this one may have taken effect.
func judge(err error) remote.Verdict {
	status := 0
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		status = answer.Code
	}
	return remote.Judge(err, status)
}

// explain makes a sentinel or an error for people of an SDK's error.
func (s *Store) explain(err error) error {
	answer, answered := errors.AsType[*googleapi.Error](err)
	if !answered {
		return s.unanswered(err)
	}
	reason := ""
	if len(answer.Errors) > 0 {
		reason = answer.Errors[0].Reason
	}
	message := cmp.Or(answer.Message, answer.Body)
	f := remote.Answer(answer.Code, reason, message, err)
	noBucket := strings.Contains(message, "bucket does not exist") // else the name is a bucket's, in a sentence about an object
	switch {
	case answer.Code == http.StatusNotModified:
		return blob.ErrNotModified
	case answer.Code == http.StatusNotFound && noBucket:
		f.Advice = remote.AdviceBucket
	case answer.Code == http.StatusNotFound:
		return blob.ErrNotFound
	case answer.Code == http.StatusPreconditionFailed:
		return blob.ErrPreconditionFailed
	case answer.Code == http.StatusForbidden && retained(reason, message):
		return fmt.Errorf("%w: %w", blob.ErrRetained, f)
	case answer.Code == http.StatusForbidden:
		return s.Forbidden(f, adviceForbidden)
	case answer.Code == http.StatusUnauthorized:
		return s.Forbidden(f, "check the credentials, and this host's clock; "+s.adviceCredentials())
	case answer.Code == http.StatusServiceUnavailable || answer.Code == http.StatusTooManyRequests:
		f.Advice = remote.AdviceBusy
	}
	return s.Advised(f, f.Advice)
}

func (s *Store) unanswered(err error) error {
	switch {
	case errors.Is(err, remote.ErrCredentials):
		return s.Forbidden(remote.ErrCredentials, s.adviceCredentials())
	case strings.Contains(err.Error(), "cannot fetch token"), strings.Contains(err.Error(), "auth: "):
		f := &remote.Failure{Words: "no access token was given for the credentials", Cause: err}
		return s.Forbidden(f, "check the credentials, that this host reaches Google's token service, and its clock; "+s.adviceCredentials())
	case remote.Silent(err), errors.Is(err, io.ErrUnexpectedEOF):
		f := remote.Network(err, caHow)
		return s.Advised(f, f.Advice)
	}
	return s.Failed(err)
}

func (s *Store) adviceCredentials() string {
	if s.config.key != "" {
		return adviceGiven
	}
	return adviceCredentials
}

// retained tells whether a refusal is about a hold, a lock or a retention period.
func retained(reason, message string) bool {
	if reason == "retentionPolicyNotMet" || reason == "objectUnderActiveHold" {
		return true
	}
	message = strings.ToLower(message)
	return strings.Contains(message, "retention") || strings.Contains(message, "active temporary hold") || strings.Contains(message, "event-based hold")
}
