package gs_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/gs"
	"etcdadm.io/internal/blob/remote/remotetest"
	"etcdadm.io/internal/teststore"
)

func open(t *testing.T, url string, opts gs.Options) *gs.Store {
	t.Helper()
	store, err := gs.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestConformance(t *testing.T) {
	server := teststore.Start(t, teststore.FakeGCSServer)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	var n atomic.Int64
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return open(t, fmt.Sprintf("gs://%s/store %d/below", teststore.Bucket, n.Add(1)), gs.Options{})
	})
}

func kind(r *http.Request) remotetest.Kind {
	query := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Path, "/upload/") && query.Get("uploadType") == "multipart":
		return remotetest.Write
	case strings.HasPrefix(r.URL.Path, "/upload/") && query.Has("upload_id") || r.Method == http.MethodPut:
		// The last chunk is the one that knows the size.
		if !strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
			return remotetest.Write
		}
		return remotetest.Part
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/o"):
		return remotetest.List
	case r.Method == http.MethodGet:
		return remotetest.Read
	}
	return remotetest.Other
}

func TestFaults(t *testing.T) {
	server := teststore.Start(t, teststore.FakeGCSServer)
	remotetest.Run(t, remotetest.Driver{
		Server: server, Kind: kind,
		Open: func(t *testing.T, endpoint, folder string, stall time.Duration) blob.Store {
			return open(t, "gs://"+teststore.Bucket+"/"+folder+"?endpoint="+endpoint, gs.Options{Stall: stall})
		},
	})
}
