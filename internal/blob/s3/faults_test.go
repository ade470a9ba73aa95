package s3_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote/remotetest"
	"etcdadm.io/internal/blob/s3"
	"etcdadm.io/internal/teststore"
)

// Idle connections of the SDK's pools end with the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func kind(r *http.Request) remotetest.Kind {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut && query.Has("uploadId"):
		return remotetest.Part
	case r.Method == http.MethodPut, r.Method == http.MethodPost && query.Has("uploadId"):
		return remotetest.Write
	case r.Method == http.MethodGet && query.Has("list-type"):
		return remotetest.List
	case r.Method == http.MethodGet:
		return remotetest.Read
	}
	return remotetest.Other
}

// raw is the SDK's own client, to see what the driver left.
func raw(server *teststore.Server) *sdk.Client {
	return sdk.New(sdk.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: teststore.Region,
		Credentials: credentials.NewStaticCredentialsProvider(teststore.AccessKey, teststore.SecretKey, ""),
	})
}

func TestFaults(t *testing.T) {
	for _, name := range []string{teststore.Versitygw, teststore.Gofakes3} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, name)
			remotetest.Run(t, remotetest.Driver{
				Server: server, Kind: kind, Durable: name == teststore.Versitygw,
				Unconditional: name == teststore.Gofakes3,
				Open: func(t *testing.T, endpoint, folder string, stall time.Duration) blob.Store {
					return open(t, "s3://"+teststore.Bucket+"/"+folder+"?endpoint="+endpoint, s3.Options{Stall: stall})
				},
				Leftovers: func(t *testing.T) int {
					out, err := raw(server).ListMultipartUploads(t.Context(), &sdk.ListMultipartUploadsInput{Bucket: aws.String(teststore.Bucket)})
					if err != nil {
						t.Fatal(err)
					}
					return len(out.Uploads)
				},
			})
		})
	}
}

// wantHint checks that an error is for people: it has a hint, it fits on a line, and it holds no secret.
func wantHint(t *testing.T, err, sentinel error, words, hint string) {
	t.Helper()
	var told *blob.Error
	if !errors.As(err, &told) || !strings.Contains(err.Error(), words) || !strings.Contains(told.Hint(), hint) {
		t.Errorf("%v\nhint: %q\nwant %q, and in the hint %q", err, told.Hint(), words, hint)
	}
	if sentinel != nil && !errors.Is(err, sentinel) {
		t.Errorf("%v is not %v", err, sentinel)
	}
	if errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v counts as not found", err)
	}
	for _, secret := range []string{teststore.SecretKey, "wrong-secret"} {
		if strings.Contains(err.Error()+told.Hint(), secret) {
			t.Errorf("the error repeats a secret: %v", err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestErrorsForPeople(t *testing.T) {
	server := serve(t, teststore.Versitygw)
	read := func(url string) error {
		_, _, err := blob.ReadAll(t.Context(), open(t, url, s3.Options{Stall: time.Second}), "object", 100)
		return err
	}
	wantHint(t, read("s3://other-bucket/x"), nil, "NoSuchBucket", "create the bucket")
	wantHint(t, read("s3://"+teststore.Bucket+"?endpoint=http://127.0.0.1:1"), nil, "nothing listens at the store's address 127.0.0.1:1", "endpoint")
	wantHint(t, read("s3://"+teststore.Bucket+"?endpoint="+strings.Replace(server.URL, "http:", "https:", 1)), nil, "does not speak TLS", "http://")
	wantHint(t, read("s3://"+teststore.Bucket+"?endpoint=http://store.invalid"), nil, `"store.invalid" can not be resolved`, "DNS")

	t.Setenv("S3_SECRET_ACCESS_KEY", "wrong-secret")
	wantHint(t, read("s3://"+teststore.Bucket), blob.ErrForbidden, "SignatureDoesNotMatch", "check the access key")
	t.Setenv("S3_ACCESS_KEY_ID", "nobody")
	wantHint(t, read("s3://"+teststore.Bucket), blob.ErrForbidden, "No user exists with the provided access key", "check the access key")

	for _, name := range []string{"S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	wantHint(t, read("s3://"+teststore.Bucket), blob.ErrForbidden, "there are no usable credentials", "AWS_ACCESS_KEY_ID")
	t.Setenv("AWS_ACCESS_KEY_ID", teststore.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", teststore.SecretKey)
	if err := read("s3://" + teststore.Bucket); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("with the SDK's own variables: %v", err)
	}
	t.Setenv("S3_ENDPOINT", "")
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	if err := read("s3://" + teststore.Bucket); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("with the SDK's own endpoint: %v", err)
	}
}
