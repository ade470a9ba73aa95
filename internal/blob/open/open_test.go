package open_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
)

func TestOpenFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b", "store")
	url := "file://" + strings.ReplaceAll(dir, " ", "%20")
	if _, err := open.Open(t.Context(), url, open.Options{}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Fatalf("a store that is not there: %v", err)
	}
	store, err := open.Open(t.Context(), url, open.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), store, "k", []byte("v"), blob.IfAbsent); err != nil {
		t.Fatal(err)
	}
	again, err := open.Open(t.Context(), "FILE://localhost"+strings.ReplaceAll(dir, " ", "%20")+"/", open.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := blob.ReadAll(t.Context(), again, "k", 10); err != nil || string(data) != "v" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestOpenMemory(t *testing.T) {
	store, err := open.Open(t.Context(), "mem://", open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if caps, err := blob.Probe(t.Context(), store, ""); err != nil || !caps.Conditional {
		t.Errorf("%+v, %v", caps, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, name := range []string{"S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ENDPOINT", "STORAGE_EMULATOR_HOST"} {
		t.Setenv(name, "")
	}
	for url, want := range map[string]string{
		"":                                      "the URL is empty",
		"/var/backups":                          "a URL is needed",
		"backups":                               "no scheme",
		"file://":                               "not absolute",
		"file://backups/etcd":                   "not absolute",
		"file://./backups":                      "not absolute",
		"file://../backups":                     "not absolute",
		"file:///":                              "root directory",
		"file:///a/../..":                       "root directory",
		"file:///a%zz":                          "hexadecimal",
		"file:///a%00b":                         "NUL",
		"file:///a\x00b":                        "can not be printed",
		"file:///a?region=x":                    "takes no '?'",
		"file:///a#b":                           "takes no '#'",
		"mem://name":                            "no name",
		"s3://":                                 "names no bucket",
		"s3:///folder":                          "names no bucket",
		"s3://bucket/a//b":                      "the folder can not be used",
		"s3://bucket/../b":                      "the folder can not be used",
		"s3://bucket:80/x":                      "can not be the name of a bucket",
		"s3://bucket/x?colour=1":                "not a parameter",
		"s3://bucket/x?region=":                 "takes one value",
		"s3://bucket/x#y":                       "# part",
		"s3://bucket/%zz":                       "hexadecimal",
		"s3://b/x?endpoint=ftp://x":             "http://",
		"s3://b/x?endpoint=https://me:secret@x": "credentials do not belong",
		"gs://":                                 "names no bucket",
		"gs://b/x?region=y":                     "not a parameter",
		"gs://b/x?ca=/does/not/exist":           "CA bundle",
		"azureblob://":                          "names no bucket",
		"azureblob://only/":                     "storage account or the container was not said",
		"azureblob://a/c?endpoint=http://x":     "tokens are not sent over http",
		"do://space/x":                          "where in DigitalOcean Spaces",
		"linode://bucket/x":                     "where in Linode",
		"hos://bucket/x":                        "where in Hetzner",
		"scw://bucket/x":                        "where in Scaleway",
		"swift://container/x":                   "not supported by its own protocol",
		"ftp://host/x":                          "unknown scheme",
		"://x":                                  "no valid scheme",
		"s3 ://x":                               "no valid scheme",
		"http://me:secret@host/up":              "unknown scheme",
		"s3://me:secret@bucket/up":              "credentials do not belong",
	} {
		_, err := open.Open(t.Context(), url, open.Options{Create: true})
		var e *blob.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
			continue
		}
		if strings.Contains(err.Error()+e.Hint(), "secret") {
			t.Errorf("%q: the error repeats a secret: %v", url, err)
		}
	}
	if _, err := open.Open(t.Context(), "ftp://x", open.Options{}); err != nil {
		var e *blob.Error
		if errors.As(err, &e); !strings.Contains(e.Hint(), "file://") || !strings.Contains(e.Hint(), "scw://") {
			t.Errorf("the hint does not list the schemes: %q", e.Hint())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open.Open(ctx, "mem://", open.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

// Check takes every parameter that Open takes, and touches nothing.
func TestCheckTakesWhatOpenTakes(t *testing.T) {
	for _, name := range []string{"S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ENDPOINT", "STORAGE_EMULATOR_HOST"} {
		t.Setenv(name, "")
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close() // it is asked nothing
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"s3://bucket/folder?region=r&endpoint=" + server.URL + "&ca=" + ca, "do://bucket?region=r&ca=" + ca, "linode://bucket?region=r", "hos://bucket?region=r", "scw://bucket?region=r",
		"gs://bucket/folder?endpoint=" + server.URL + "&ca=" + ca, "azureblob://account/container/folder?endpoint=" + server.URL + "&ca=" + ca,
	} {
		if err := open.Check(url); err != nil {
			t.Errorf("Check of %s: %v", url, err)
		}
		if _, err := open.Open(t.Context(), url, open.Options{}); err != nil {
			t.Errorf("Open of %s: %v", url, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, url := range []string{"", "file:///a", "file://a", "file:///%", "s3://b", "mem://", "x://", "://", "file:///\x00", "/a\nb"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		err := open.Check(url)
		if err == nil {
			return
		}
		var e *blob.Error
		if !errors.As(err, &e) {
			t.Fatalf("%q: %v", url, err)
		}
		if strings.ContainsAny(err.Error()+e.Hint(), "\n\x00") {
			t.Fatalf("%q: not one line: %q, %q", url, err, e.Hint())
		}
	})
}

// What is no file, where a file of the SDK is named, is refused with its path.
func TestConfigurationThatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE"} {
		t.Run(name, func(t *testing.T) {
			for path, is := range map[string]string{pipe: "it is a pipe", "/dev/zero": "it is a device"} {
				t.Setenv(name, path)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := open.Open(ctx, "s3://b/folder", open.Options{})
				if told, ok := errors.AsType[*blob.Error](err); !ok || ctx.Err() != nil || !strings.Contains(err.Error(), path+": "+is) || told.Hint() == "" {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
}

// A file that does not answer, where nobody knows of it before the SDK opens it, is not waited for beyond the caller's time;
// whoever asks next waits for the same opening, and has what comes of it.
func TestConfigurationThatStandsStill(t *testing.T) {
	dir := t.TempDir()
	still := filepath.Join(dir, "still")
	if err := syscall.Mkfifo(still, 0o600); err != nil { // an open of it stands still until somebody writes
		t.Fatal(err)
	}
	named := filepath.Join(dir, "config")
	if err := os.WriteFile(named, []byte("[default]\nca_bundle = "+still+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_CONFIG_FILE": named, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_CA_BUNDLE": "", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	before := runtime.NumGoroutine()
	const asked = 12
	for range asked {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			_, err := open.Open(ctx, "s3://b/folder", open.Options{})
			ended <- err
		}()
		select {
		case err := <-ended:
			if told, ok := errors.AsType[*blob.Error](err); !ok || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered") || !strings.Contains(told.Hint(), "mounts") {
				t.Errorf("it stood still: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a file that stands still is waited for")
		}
		cancel()
	}
	if left := runtime.NumGoroutine() - before; left > asked/2 {
		t.Errorf("%d goroutines wait for it", left)
	}
	last := make(chan error, 1)
	go func() {
		_, err := open.Open(t.Context(), "s3://b/folder", open.Options{})
		last <- err
	}()
	for {
		if w, err := os.OpenFile(still, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			w.Close() // with no certificate in it
		} else if !errors.Is(err, syscall.ENXIO) { // nobody reads just now
			t.Fatal(err)
		}
		select {
		case err := <-last:
			if err == nil || !strings.Contains(err.Error(), "load the AWS configuration") {
				t.Errorf("when it answers: %v", err)
			}
			return
		case <-time.After(time.Second):
		}
	}
}
