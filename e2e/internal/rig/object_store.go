package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"etcdadm.io/internal/teststore"
)

// objectStoreKeys lets every program of a test, and the test itself, into the
// object stores that it runs.
func objectStoreKeys() {
	for name, value := range map[string]string{
		"S3_REGION": teststore.Region, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey,
		"AZURE_STORAGE_ACCOUNT": teststore.AzureAccount, "AZURE_STORAGE_KEY": teststore.AzureKey,
	} {
		os.Setenv(name, value)
	}
}

// ObjectStore is the URL of a store in a server, by way of another address if
// one is given.
func ObjectStore(t *testing.T, server *teststore.Server, name, endpoint string) string {
	t.Helper()
	if endpoint == "" {
		endpoint = server.URL
	}
	switch name {
	case teststore.FakeGCSServer:
		return "gs://" + teststore.Bucket + "/test?endpoint=" + endpoint
	case teststore.Azurite:
		account := endpoint + "/" + teststore.AzureAccount
		key, err := azblob.NewSharedKeyCredential(teststore.AzureAccount, teststore.AzureKey)
		if err != nil {
			t.Fatal(err)
		}
		client, err := azblob.NewClientWithSharedKeyCredential(account, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CreateContainer(t.Context(), teststore.Bucket, nil); err != nil {
			t.Fatal(err)
		}
		return "azureblob://" + teststore.Bucket + "/test?endpoint=" + account
	}
	return "s3://" + teststore.Bucket + "/test?endpoint=" + endpoint
}

// Uploads are the requests that carry the snapshot of a backup to S3.
func Uploads(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.Contains(r.URL.Path, "/etcd.backup")
}

// NewerBackup waits for a backup that is newer than a given one.
func (c *Cluster) NewerBackup(than string) (name string) {
	c.T.Helper()
	Eventually(c.T, 90*time.Second, "a newer backup", func(context.Context) error {
		all := c.ListBackups()
		if len(all) == 0 {
			return errors.New("there is none")
		}
		if name = all[0].Name; name <= than {
			return fmt.Errorf("the newest is %s", name)
		}
		return nil
	})
	if i := slices.IndexFunc(c.ListBackups(), func(b Listed) bool { return b.Name == name }); i < 0 {
		c.T.Errorf("backup %s was listed, and is not any more", name)
	}
	return name
}
