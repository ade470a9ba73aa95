package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/s3"
	"etcdadm.io/internal/teststore"
)

// serve starts a server and lets every store that is opened without an endpoint use it.
func serve(t *testing.T, name string) *teststore.Server {
	t.Helper()
	server := teststore.Start(t, name)
	for key, value := range map[string]string{
		"S3_ENDPOINT": server.URL, "S3_REGION": teststore.Region,
		"S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey,
	} {
		t.Setenv(key, value)
	}
	return server
}

func open(t *testing.T, url string, opts s3.Options) *s3.Store {
	t.Helper()
	store, err := s3.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestConformance(t *testing.T) {
	for _, name := range []string{teststore.Versitygw, teststore.Gofakes3} {
		t.Run(name, func(t *testing.T) {
			serve(t, name)
			var n atomic.Int64
			blobtest.RunWith(t, blobtest.Traits{ContentTags: true}, func(t *testing.T) blob.Store {
				return open(t, fmt.Sprintf("s3://%s/store %d/below", teststore.Bucket, n.Add(1)), s3.Options{})
			})
		})
	}
}
