package azure_test

import (
	"os"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/azure"
	"etcdadm.io/internal/blob/remote/remotetest"
)

// A service for tokens that does not answer holds no call up beyond its context.
func TestCredentialsThatAreNotGivenOut(t *testing.T) {
	for _, name := range []string{"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ENDPOINT", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_TOKEN_CREDENTIALS"} {
		t.Setenv(name, "") // and back at the end
		os.Unsetenv(name)
	}
	remotetest.EndsWithoutCredentials(t, func(credentials string) blob.Store {
		t.Setenv("IDENTITY_ENDPOINT", credentials)
		t.Setenv("IDENTITY_HEADER", "h")
		t.Setenv("AZURE_CLIENT_ID", "5c9a1a43-8ae6-4a5e-9b1f-5d3f0c2f7c11") // the SDK keeps other identities' tokens for the whole process
		return open(t, "azureblob://account/container/folder?endpoint=https://127.0.0.1:1", azure.Options{})
	})
}
