package record_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"etcdadm.io/operator/record"
)

// Who gives a URL is told what to put into the Secret: neither may the URL have the credentials sent elsewhere, nor does the
// operator read files.
func TestWordsOfTheSecret(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	for url, want := range map[string]string{
		"s3://b/f":                               "put the authority's certificate into the Secret, as ca.crt",
		"s3://b/f?endpoint=http://evil.example":  "endpoint= in the URL would send the credentials elsewhere: give the endpoint with them, as S3_ENDPOINT",
		"s3://b/f?ca=/etc/passwd":                "give the certificates themselves, as ca.crt",
		"gs://b/f?endpoint=https://evil.example": "endpoint= in the URL",
		"do://b/f?region=evil.example/":          "can not be a part of a server's name",
	} {
		given := map[string]string{"S3_ACCESS_KEY_ID": "k", "S3_SECRET_ACCESS_KEY": "s", "S3_REGION": "r", "GOOGLE_CREDENTIALS": "{}"}
		if !strings.HasPrefix(url, "do:") {
			given["S3_ENDPOINT"] = server.URL
		}
		_, err := new(record.Stores).Open(t.Context(), "1", url, given)
		if err == nil || !strings.Contains(record.Words(err), want) || strings.Contains(record.Words(err), "FILE") {
			t.Errorf("%s: %v", url, record.Words(err))
		}
	}
}
