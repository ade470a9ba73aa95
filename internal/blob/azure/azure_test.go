package azure_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/azure"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/remote/remotetest"
	"etcdadm.io/internal/teststore"
)

// serve starts azurite with a container, and sets what the driver needs to get in.
func serve(t *testing.T) *teststore.Server {
	t.Helper()
	server := teststore.Start(t, teststore.Azurite)
	t.Setenv("AZURE_STORAGE_ACCOUNT", teststore.AzureAccount)
	t.Setenv("AZURE_STORAGE_KEY", teststore.AzureKey)
	t.Setenv("AZURE_STORAGE_ENDPOINT", server.URL+"/"+teststore.AzureAccount)
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	credential, err := azblob.NewSharedKeyCredential(teststore.AzureAccount, teststore.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential(server.URL+"/"+teststore.AzureAccount, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateContainer(t.Context(), teststore.Bucket, nil); err != nil {
		t.Fatal(err)
	}
	return server
}

func open(t *testing.T, url string, opts azure.Options) *azure.Store {
	t.Helper()
	store, err := azure.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestConformance(t *testing.T) {
	serve(t)
	var n atomic.Int64
	blobtest.RunWith(t, blobtest.Traits{Refused: []string{"...", `a\b`}}, func(t *testing.T) blob.Store {
		return open(t, fmt.Sprintf("azureblob://%s/store %d/below", teststore.Bucket, n.Add(1)), azure.Options{})
	})
}

func kind(r *http.Request) remotetest.Kind {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut && query.Get("comp") == "block":
		return remotetest.Part
	case r.Method == http.MethodPut:
		return remotetest.Write
	case r.Method == http.MethodGet && query.Get("comp") == "list":
		return remotetest.List
	case r.Method == http.MethodGet:
		return remotetest.Read
	}
	return remotetest.Other
}

func TestFaults(t *testing.T) {
	server := serve(t)
	remotetest.Run(t, remotetest.Driver{
		Server: server, Kind: kind,
		Open: func(t *testing.T, endpoint, folder string, stall time.Duration) blob.Store {
			return open(t, "azureblob://"+teststore.Bucket+"/"+folder+"?endpoint="+endpoint+"/"+teststore.AzureAccount, azure.Options{Stall: stall})
		},
	})
}

// The service gives up to 5000 names at a time, and says how it goes on.
func TestListingGoesOn(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		marker := r.URL.Query().Get("marker")
		asked = append(asked, marker)
		page := map[string]struct{ name, next string }{"": {"folder/a", "first"}, "first": {"folder/b", "second"}, "second": {"folder/c", ""}}[marker]
		w.Header().Set("Content-Type", "application/xml")
		_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs><Blob><Name>%s</Name><Properties>`+
			`<Last-Modified>Mon, 02 Jan 2006 15:04:05 GMT</Last-Modified><Content-Length>7</Content-Length></Properties></Blob></Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, page.name, page.next)
	}))
	defer server.Close()
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sig=x")
	infos, err := open(t, "azureblob://container/folder?endpoint="+server.URL, azure.Options{}).List(t.Context(), "")
	if err != nil || len(infos) != 3 || infos[0].Key != "a" || infos[1].Key != "b" || infos[2].Key != "c" || infos[2].Size != 7 {
		t.Errorf("%+v, %v", infos, err)
	}
	if want := []string{"", "first", "second"}; !slices.Equal(asked, want) {
		t.Errorf("asked with %q, want %q", asked, want)
	}
}

// Without a key or a token the machine's identity is used. What hands it out, and the
// store, have a certificate of an authority of one's own.
func TestIdentity(t *testing.T) {
	var shown, given atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/identity" {
			token, _ := given.Load().(string)
			w.Header().Set("Content-Type", "application/json")
			if token == "" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"invalid_request","error_description":"no identity"}`)
				return
			}
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_on":"%d","resource":"x","token_type":"Bearer"}`, token, time.Now().Add(time.Hour).Unix())
			return
		}
		shown.Store(r.Header.Get("Authorization"))
		w.Header().Set("X-Ms-Error-Code", "BlobNotFound")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ENDPOINT", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"} {
		t.Setenv(name, "") // so that it is as before afterwards
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	t.Setenv("IDENTITY_ENDPOINT", server.URL+"/identity")
	t.Setenv("IDENTITY_HEADER", "header")
	read := func(parameters string) error {
		_, _, err := blob.ReadAll(t.Context(), open(t, "azureblob://container?endpoint="+server.URL+parameters, azure.Options{}), "object", 100)
		return err
	}
	// First, since the SDK remembers a token for the whole process.
	wantHint(t, read("&ca="+ca), blob.ErrForbidden, "there are no usable credentials")
	given.Store("the-token")
	if err := read("&ca=" + ca); !errors.Is(err, blob.ErrNotFound) || shown.Load() != "Bearer the-token" {
		t.Errorf("%v, with %q", err, shown.Load())
	}
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sig=wrong-secret")
	wantHint(t, read(""), nil, "an authority that this host does not know")
	for _, url := range []string{"azureblob://container?ca=/dev/null", "azureblob://container?colour=1", "azureblob://container?endpoint=ftp://x"} {
		if _, err := azure.Open(t.Context(), url, azure.Options{}); err == nil || !strings.Contains(err.Error(), "store azureblob://") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestErrorsForPeople(t *testing.T) {
	server := serve(t)
	for url, want := range map[string]string{
		"azureblob://other-container/x":                                      "ContainerNotFound",
		"azureblob://" + teststore.Bucket + "?endpoint=http://127.0.0.1:1/x": "nothing listens at the store's address 127.0.0.1:1",
	} {
		_, _, err := blob.ReadAll(t.Context(), open(t, url, azure.Options{Stall: time.Second}), "object", 100)
		wantHint(t, err, nil, want)
	}
	// The form that names the account, in place of the variable or beside the same.
	for _, account := range []string{teststore.AzureAccount, ""} {
		t.Setenv("AZURE_STORAGE_ACCOUNT", account)
		store := open(t, "azureblob://"+teststore.AzureAccount+"/"+teststore.Bucket+"/folder", azure.Options{})
		if _, err := blob.PutBytes(t.Context(), store, "object", []byte("x"), blob.Any); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", teststore.AzureAccount)
	t.Setenv("AZURE_STORAGE_KEY", "d3Jvbmctc2VjcmV0")
	_, _, err := blob.ReadAll(t.Context(), open(t, "azureblob://"+teststore.Bucket, azure.Options{}), "object", 100)
	wantHint(t, err, blob.ErrForbidden, "403")
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2020-01-01&sig=wrong-secret")
	_, _, err = blob.ReadAll(t.Context(), open(t, "azureblob://"+teststore.Bucket, azure.Options{}), "object", 100)
	wantHint(t, err, blob.ErrForbidden, "403")
	server.Kill()
	_, _, err = blob.ReadAll(t.Context(), open(t, "azureblob://"+teststore.Bucket, azure.Options{}), "object", 100)
	wantHint(t, err, nil, "nothing listens")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	if _, err := azure.Open(t.Context(), "azureblob://"+teststore.Bucket, azure.Options{}); err == nil || !strings.Contains(err.Error(), "over http") {
		t.Errorf("tokens over http: %v", err)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	if _, err := azure.Open(t.Context(), "azureblob://"+teststore.Bucket, azure.Options{}); err == nil || !strings.Contains(err.Error(), "was not said") {
		t.Errorf("without an account: %v", err)
	}
}
