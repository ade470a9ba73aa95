package gs_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/gs"
	"etcdadm.io/internal/blob/remote/remotetest"
)

// A token endpoint that does not answer holds no call up beyond its context.
func TestCredentialsThatAreNotGivenOut(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	remotetest.EndsWithoutCredentials(t, func(credentials string) blob.Store {
		account, err := json.Marshal(map[string]string{
			"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "a@p.iam.gserviceaccount.com", "client_id": "2",
			"token_uri": credentials + "/token", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "account.json")
		if err := os.WriteFile(file, account, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		return open(t, "gs://bucket/folder?endpoint=https://127.0.0.1:1", gs.Options{})
	})
}
