package s3_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/s3"
	"etcdadm.io/internal/teststore"
)

// A server with a certificate of an authority of one's own is reached once that authority is named.
func TestAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`<Error><Code>NoSuchKey</Code></Error>`))
	}))
	defer server.Close()
	t.Setenv("S3_ENDPOINT", server.URL)
	t.Setenv("S3_ACCESS_KEY_ID", teststore.AccessKey)
	t.Setenv("S3_SECRET_ACCESS_KEY", teststore.SecretKey)
	read := func(url string) error {
		_, _, err := blob.ReadAll(t.Context(), open(t, url, s3.Options{}), "x", 10)
		return err
	}
	wantHint(t, read("s3://b"), nil, "an authority that this host does not know", "AWS_CA_BUNDLE")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read("s3://b?ca=" + ca); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("with ca=: %v", err)
	}
	t.Setenv("AWS_CA_BUNDLE", ca)
	if err := read("s3://b"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("with AWS_CA_BUNDLE: %v", err)
	}
	for _, url := range []string{"s3://b?ca=/dev/null", "s3://b?colour=1", "s3://b?endpoint=ftp://x"} {
		if _, err := s3.Open(t.Context(), url, s3.Options{}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
}

// A real server's object lock keeps an object, and says so by the sentinel.
func TestRetained(t *testing.T) {
	client := raw(serve(t, teststore.Versitygw))
	ctx := t.Context()
	if _, err := client.CreateBucket(ctx, &sdk.CreateBucketInput{Bucket: aws.String("locked"), ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	store := open(t, "s3://locked", s3.Options{})
	if _, err := blob.PutBytes(ctx, store, "object", []byte("content"), blob.IfAbsent); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutObjectRetention(ctx, &sdk.PutObjectRetentionInput{
		Bucket: aws.String("locked"), Key: aws.String("object"),
		Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeCompliance, RetainUntilDate: aws.Time(time.Now().Add(time.Hour))},
	}); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(ctx, "object"); !errors.Is(err, blob.ErrRetained) {
		t.Errorf("delete: %v", err)
	}
	if _, err := blob.PutBytes(ctx, store, "object", []byte("other"), blob.Any); !errors.Is(err, blob.ErrRetained) {
		t.Errorf("overwrite: %v", err)
	}
}
