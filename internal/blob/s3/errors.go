package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

const (
	caHow = "AWS_CA_BUNDLE=FILE, or ca=FILE in the store's URL"

	adviceCredentials = "give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, by a profile, or by the role of the machine"
	adviceNoStore     = "something else than an S3 store seems to answer there, as the page of a proxy or of a login: check the endpoint, HTTPS_PROXY and HTTP_PROXY"
	adviceFull        = "make room in the store, or have its quota raised"
	adviceForbidden   = "allow s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and, on the bucket, s3:ListBucket: without the last, S3 answers the same for an object that is not there"
)

// What answers, and is no S3: a proxy with a page of its own, mostly.
var (
	errNoObject  = errors.New("the store tells no ETag or no size")
	errNoETag    = errors.New("the store confirms the write, but tells no ETag")
	errNoListing = errors.New("the store answers a listing with something else")
)

// reply is what a server said about a request that failed.
type reply struct {
	status        int
	code, message string
	header        http.Header
}

// replyOf takes the server's words out of an SDK's error; false if there was no answer.
func replyOf(err error) (reply, bool) {
	var r reply
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && response.Response != nil {
		r.status = response.HTTPStatusCode()
		r.header = response.Response.Header
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		r.code, r.message = api.ErrorCode(), api.ErrorMessage()
	}
	return r, r.status != 0
}

// judge tells whether another attempt can help. What may have been carried out by the server, although it said otherwise or
// nothing, is unsure.
func judge(err error) remote.Verdict {
	r, answered := replyOf(err)
	if answered && !errors.Is(err, remote.ErrCredentials) {
		switch {
		case r.code == "ConditionalRequestConflict" || r.code == "OperationAborted":
			return remote.Again // another write was under way, and this one was not made
		case r.code == "ExistingObjectIsDirectory":
			// Gateways over directories say so of a key whose folder somebody empties
			// at the same time. One that is a folder for good is told after the tries.
			return remote.Again
		case r.code == "NotImplemented":
			return remote.Final
		case r.code == "RequestTimeout", r.code == "SlowDown", r.status/100 == 2: // the last is an answer that broke off
			return remote.Unsure
		}
	}
	return remote.Judge(err, r.status)
}

// explain makes a sentinel or an error for people of an SDK's error.
func (s *Store) explain(err error) error {
	r, answered := replyOf(err)
	if !answered {
		return s.unanswered(err)
	}
	f := remote.Answer(r.status, r.code, r.message, err)
	switch {
	case r.status == http.StatusNotModified:
		return blob.ErrNotModified
	case r.code == "NoSuchKey":
		return blob.ErrNotFound
	case r.status == http.StatusPreconditionFailed:
		return blob.ErrPreconditionFailed
	case r.code == "NoSuchUpload":
		return fmt.Errorf("%w: the upload was aborted or completed meanwhile", blob.ErrNotFound)
	case retained(r):
		return fmt.Errorf("%w: %w", blob.ErrRetained, f)
	}
	sentinel := error(nil)
	switch {
	case r.status == http.StatusInsufficientStorage || strings.Contains(r.code, "Quota"): // Ceph's and MinIO's, the former with 403
		f.Advice = adviceFull
	case r.code == "NoSuchBucket":
		f.Advice = remote.AdviceBucket
	case r.code == "RequestTimeTooSkewed":
		f.Advice = "set this host's clock: it differs from the store's by more than 15 minutes"
	case r.code == "SignatureDoesNotMatch" || r.code == "InvalidAccessKeyId" || r.code == "XAdminUserNotFound": // the last is versitygw's
		sentinel, f.Advice = blob.ErrForbidden, "check the access key and its secret, and that they are for this store"
	case r.code == "ExpiredToken" || r.code == "InvalidToken" || r.code == "TokenRefreshRequired":
		sentinel, f.Advice = blob.ErrForbidden, "get a new session token"
	case r.code == "AuthorizationHeaderMalformed" || r.code == "PermanentRedirect" || r.status == http.StatusMovedPermanently || r.status == http.StatusTemporaryRedirect:
		f.Advice = "the bucket is in another region"
		if region := r.header.Get(regionHeader); region != "" {
			f.Advice += ": write region=" + region + " in the store's URL, or set S3_REGION"
		}
	case r.status/100 == 3:
		f.Advice = adviceNoStore
	case r.status == http.StatusForbidden || r.status == http.StatusUnauthorized:
		sentinel, f.Advice = blob.ErrForbidden, adviceForbidden
	case r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests:
		f.Advice = remote.AdviceBusy
	}
	if sentinel != nil {
		return s.Advised(fmt.Errorf("%w: %w", sentinel, f), f.Advice)
	}
	return s.Advised(f, f.Advice)
}

func (s *Store) unanswered(err error) error {
	switch {
	case errors.Is(err, remote.ErrCredentials):
		return s.Forbidden(remote.ErrCredentials, adviceCredentials)
	case remote.Silent(err):
		f := remote.Network(err, caHow)
		return s.Advised(f, f.Advice)
	}
	if _, ok := errors.AsType[*blob.Error](err); ok {
		return err
	}
	return s.Failed(err)
}

// retained tells whether an answer says that a lock or a hold keeps the object. S3 has no code of its own for it.
func retained(r reply) bool {
	if r.code == "ObjectLocked" {
		return true
	}
	if r.status != http.StatusForbidden && r.status != http.StatusBadRequest && r.status != http.StatusConflict {
		return false
	}
	message := strings.ToLower(r.message)
	for _, words := range []string{"object lock", "object is worm protected", "legal hold", "retention"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

func codeOf(err error) string {
	r, _ := replyOf(err)
	return r.code
}

// unsupported tells whether an answer says that the server has no such thing as this condition.
func unsupported(err error) bool {
	r, ok := replyOf(err)
	return ok && (r.status == http.StatusNotImplemented || r.code == "NotImplemented")
}
