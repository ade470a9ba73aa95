package open_test

import (
	"errors"
	"strings"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/teststore"
)

// Where all is given, what this process's environment says is looked at by none of the drivers: who gives a URL must not be
// let in as who runs the program.
func TestGivenAlone(t *testing.T) {
	server := teststore.Start(t, teststore.Versitygw)
	for name, value := range map[string]string{
		"S3_ENDPOINT": server.URL, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey,
		"AWS_ACCESS_KEY_ID": teststore.AccessKey, "AWS_SECRET_ACCESS_KEY": teststore.SecretKey, "AWS_CONFIG_FILE": t.TempDir(), "AZURE_STORAGE_KEY": teststore.AzureKey, "GOOGLE_APPLICATION_CREDENTIALS": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	for _, url := range []string{"s3://" + teststore.Bucket + "/f", "gs://b/f", "azureblob://account/container/f"} {
		for name, given := range map[string]map[string]string{
			"nothing": {}, "files": {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x", "AWS_SHARED_CREDENTIALS_FILE": "/x", "GOOGLE_APPLICATION_CREDENTIALS": "/x", "AZURE_FEDERATED_TOKEN_FILE": "/x"},
		} {
			if _, err := open.Open(t.Context(), url, open.Options{Given: given}); !errors.Is(err, remote.ErrCredentials) {
				t.Errorf("%s, %s: %v", url, name, err)
			}
		}
	}
	whole := map[string]string{
		"AWS_ACCESS_KEY_ID": teststore.AccessKey, "AWS_SECRET_ACCESS_KEY": teststore.SecretKey, "AWS_ENDPOINT_URL": server.URL,
		"AZURE_STORAGE_KEY": teststore.AzureKey, "GOOGLE_CREDENTIALS": `{"type":"external_account","credential_source":{"file":"/etc/passwd"}}`,
	}
	for url, says := range map[string]string{
		"file:///x": "a store of one machine", "mem://": "a store of one machine", "kubernetes://n/c": "a store of one", "hosts:///x": "unknown scheme",
		"s3://b/f?ca=/etc/passwd": "ca= names a file", "gs://b/f?ca=/etc/passwd": "ca= names a file", "azureblob://a/b/f?ca=/etc/passwd": "ca= names a file",
		"s3://b/f?endpoint=http://evil.example": "endpoint= in the URL", "gs://b/f?endpoint=https://evil.example": "endpoint= in the URL", "azureblob://a/b/f?endpoint=https://evil.example": "endpoint= in the URL",
	} {
		if _, err := open.Open(t.Context(), url, open.Options{Given: whole}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", url, err)
		}
	}
	abroad := map[string]string{"S3_ACCESS_KEY_ID": "k", "S3_SECRET_ACCESS_KEY": "s"}
	if _, err := open.Open(t.Context(), "do://b/f?region=evil.example/", open.Options{Given: abroad}); err == nil || !strings.Contains(err.Error(), "a part of a server's name") {
		t.Errorf("a region that names another server: %v", err)
	}
	s, err := open.Open(t.Context(), "s3://"+teststore.Bucket+"/f", open.Options{Given: whole})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "k", []byte("v"), blob.IfAbsent); err != nil {
		t.Error(err)
	}
	g, err := open.Open(t.Context(), "gs://b/f", open.Options{Given: whole})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), g, "k", []byte("v"), blob.IfAbsent); !errors.Is(err, remote.ErrCredentials) {
		t.Errorf("credentials that have a file read were taken: %v", err)
	}
}

// What is given is enough for Google's store, too, as far as its emulator asks.
func TestGivenGoogle(t *testing.T) {
	server := teststore.Start(t, teststore.FakeGCSServer)
	s, err := open.Open(t.Context(), "gs://"+teststore.Bucket+"/f", open.Options{Given: map[string]string{"STORAGE_EMULATOR_HOST": server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "k", []byte("v"), blob.IfAbsent); err != nil {
		t.Error(err)
	}
}

// And for Azure's, by the account's key or a service principal, where nothing is sent yet.
func TestGivenAzure(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"key":       {"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": teststore.AzureKey},
		"signature": {"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=x"},
		"principal": {"AZURE_STORAGE_ACCOUNT": "account", "AZURE_TENANT_ID": "5c9a1a43-8ae6-4a5e-9b1f-5d3f0c2f7c11", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"},
	} {
		if _, err := open.Open(t.Context(), "azureblob://container/f", open.Options{Given: given}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
