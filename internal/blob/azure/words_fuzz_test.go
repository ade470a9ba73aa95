package azure

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"etcdadm.io/internal/blob/remote"
)

// FuzzMessage: whatever the service writes into its refusal, one line of it is told.
func FuzzMessage(f *testing.F) {
	f.Add(`<?xml version="1.0" encoding="utf-8"?><Error><Code>BlobNotFound</Code><Message>The specified blob does not exist.` + "\nRequestId:1\nTime:2026-11-20T23:08:18Z</Message></Error>")
	f.Add(`{"error":{"code":"x"}}`)
	f.Add("<Error><Message>" + strings.Repeat("x", 9000))
	f.Add("<Error><Message>" + strings.Repeat("x", 9000) + "</Message></Error>")
	f.Fuzz(func(t *testing.T, body string) {
		message := messageOf(&azcore.ResponseError{RawResponse: &http.Response{Body: io.NopCloser(strings.NewReader(body))}})
		if said := remote.Answer(http.StatusBadRequest, "code", message, nil).Error(); strings.Contains(said, "\n") || len(said) > 1000 {
			t.Fatalf("%d bytes: %.300q", len(said), said)
		}
	})
}
