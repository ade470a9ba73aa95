package gs_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// canned gives one answer to every request.
func canned(t *testing.T, status int, header map[string]string, body string) *gs.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return open(t, "gs://bucket/folder?endpoint="+server.URL, gs.Options{})
}

func answer(code int, reason, message string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"errors":[{"reason":%q,"message":%q}]}}`, code, message, reason, message)
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status          int
		reason, message string
		sentinel        error
		hint            string
	}{
		"retention": {403, "retentionPolicyNotMet", "Object 'bucket/x' is subject to bucket's retention policy and cannot be deleted.", blob.ErrRetained, ""},
		"hold":      {403, "forbidden", "Object 'bucket/x' is under active Temporary hold and cannot be deleted, overwritten or archived until hold is removed.", blob.ErrRetained, ""},
		"denied":    {403, "forbidden", "someone does not have storage.objects.delete access to the Google Cloud Storage object.", blob.ErrForbidden, "roles/storage.objectAdmin"},
		"who":       {401, "authError", "Invalid Credentials", blob.ErrForbidden, "GOOGLE_APPLICATION_CREDENTIALS"},
		"no bucket": {404, "notFound", "The specified bucket does not exist.", nil, "create the bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			err := canned(t, test.status, nil, answer(test.status, test.reason, test.message)).Delete(t.Context(), "x")
			if err == nil || test.sentinel != nil && !errors.Is(err, test.sentinel) || !strings.Contains(err.Error(), test.message) {
				t.Fatalf("%v, want %v", err, test.sentinel)
			}
			if told, ok := errors.AsType[*blob.Error](err); test.hint != "" && (!ok || !strings.Contains(told.Hint(), test.hint)) {
				t.Errorf("the hint of %v has not %q", err, test.hint)
			}
		})
	}
	if err := canned(t, 404, nil, answer(404, "notFound", "No such object: my-bucket/x")).Delete(t.Context(), "x"); err != nil {
		t.Errorf("delete of what is not there: %v", err)
	}
}

func TestDamage(t *testing.T) {
	for sum, ok := range map[string]bool{"NT3Yvg==": false, "4waSgw==": false, "": true} {
		header := map[string]string{"X-Goog-Generation": "7"}
		if sum != "" {
			header["X-Goog-Hash"] = "md5=x,crc32c=" + sum
		}
		_, tag, err := blob.ReadAll(t.Context(), canned(t, 200, header, "content"), "x", 100)
		if (err == nil) != ok || ok && tag != "7" {
			t.Errorf("checksum %q: %q, %v", sum, tag, err)
		}
	}
}

// One client, and so one connection, serves the calls that come one after the other.
func TestOneConnection(t *testing.T) {
	var made atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(answer(http.StatusNotFound, "notFound", "No such object: bucket/x")))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	store := open(t, "gs://bucket?endpoint="+server.URL, gs.Options{})
	for range 5 {
		if err := store.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

// A server with a certificate of an authority of one's own is reached once that authority is named.
func TestAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(answer(http.StatusNotFound, "notFound", "No such object: bucket/x")))
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
	t.Setenv("STORAGE_EMULATOR_HOST", server.URL)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, "gs://bucket?ca="+ca, gs.Options{}).Delete(t.Context(), "x"); err != nil {
		t.Errorf("with ca=: %v", err)
	}
	err := open(t, "gs://bucket", gs.Options{}).Delete(t.Context(), "x")
	if told, ok := errors.AsType[*blob.Error](err); !ok || !strings.Contains(told.Hint(), "ca=FILE") {
		t.Errorf("without: %v", err)
	}
	for _, url := range []string{"gs://bucket?ca=/dev/null", "gs://bucket?colour=1", "gs://bucket?endpoint=ftp://x"} {
		if _, err := gs.Open(t.Context(), url, gs.Options{}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
	// It is read once: who takes it away or writes it anew later ends nothing.
	store := open(t, "gs://bucket?ca="+ca, gs.Options{})
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "x"); err != nil {
		t.Errorf("with a bundle that is gone: %v", err)
	}
}

func TestNoCredentials(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/does/not/exist")
	_, _, err := blob.ReadAll(t.Context(), open(t, "gs://bucket", gs.Options{}), "x", 10)
	told, ok := errors.AsType[*blob.Error](err)
	if !ok || !errors.Is(err, blob.ErrForbidden) || !strings.Contains(told.Hint(), "GOOGLE_APPLICATION_CREDENTIALS") {
		t.Error(err)
	}
}
