package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

const (
	caHow = "ca=FILE in the store's URL, or SSL_CERT_FILE=FILE"

	adviceCredentials = "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run where the machine has a managed identity"
	adviceForbidden   = "give this identity the role Storage Blob Data Contributor on the container, and check the account's firewall"
	adviceWrong       = "check the account's name and its key or token, and this host's clock"
)

// judge tells whether another attempt can help, and whether this one may have taken effect.
func judge(err error) remote.Verdict {
	status := 0
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		status = answer.StatusCode
	}
	return remote.Judge(err, status)
}

// explain makes a sentinel or an error for people of an SDK's error.
func (s *Store) explain(err error) error {
	answer, answered := errors.AsType[*azcore.ResponseError](err)
	if !answered {
		return s.unanswered(err)
	}
	code := bloberror.Code(answer.ErrorCode)
	f := remote.Answer(answer.StatusCode, answer.ErrorCode, messageOf(answer), err)
	switch code {
	case bloberror.BlobNotFound:
		return blob.ErrNotFound
	case bloberror.ConditionNotMet, bloberror.TargetConditionNotMet, bloberror.BlobAlreadyExists:
		if answer.StatusCode == http.StatusNotModified {
			return blob.ErrNotModified
		}
		return blob.ErrPreconditionFailed
	case bloberror.BlobImmutableDueToPolicy, "BlobImmutableDueToLegalHold", "SnapshotsPresent",
		bloberror.LeaseIDMissing, bloberror.LeaseIDMismatchWithBlobOperation:
		return fmt.Errorf("%w: %w", blob.ErrRetained, f)
	case bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted:
		return s.Advised(f, "create the container, or correct its name in the store's URL")
	case bloberror.InvalidBlockList:
		return s.Advised(f, "another upload to the same object ended this one")
	case bloberror.AuthenticationFailed, bloberror.InvalidAuthenticationInfo:
		return s.Forbidden(f, adviceWrong)
	}
	switch answer.StatusCode {
	case http.StatusNotModified:
		return blob.ErrNotModified
	case http.StatusForbidden, http.StatusUnauthorized:
		return s.Forbidden(f, adviceForbidden)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		f.Advice = remote.AdviceBusy
	}
	return s.Advised(f, f.Advice)
}

func (s *Store) unanswered(err error) error {
	switch {
	case errors.Is(err, remote.ErrCredentials):
		return s.Forbidden(remote.ErrCredentials, adviceCredentials)
	case remote.Silent(err), errors.Is(err, io.ErrUnexpectedEOF):
		f := remote.Network(err, caHow)
		return s.Advised(f, f.Advice)
	}
	return s.Failed(&remote.Failure{Words: "the request failed", Cause: err})
}

// messageOf takes the service's sentence out of an answer; the lines after it are IDs and times.
func messageOf(answer *azcore.ResponseError) string {
	if answer.RawResponse == nil {
		return ""
	}
	payload, err := runtime.Payload(answer.RawResponse)
	if err != nil {
		return ""
	}
	var said struct {
		Message string `xml:"Message"`
	}
	if xml.Unmarshal(payload, &said) != nil {
		return ""
	}
	line, _, _ := strings.Cut(said.Message, "\n")
	return line
}

// superseded tells whether the blocks of an upload were gone when it was committed: by another upload, or by its own commit.
func superseded(err error) bool {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	return ok && answer.ErrorCode == string(bloberror.InvalidBlockList)
}
