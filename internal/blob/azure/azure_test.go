package azure_test

import (
	"fmt"
	"net/http"
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
