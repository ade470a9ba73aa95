package s3

import (
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote/remotetest"
)

// A machine's metadata service, or a container's, that does not answer holds no call up beyond its context.
func TestCredentialsThatAreNotGivenOut(t *testing.T) {
	for _, from := range []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Run(from, func(t *testing.T) {
			for _, name := range []string{"S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_EC2_METADATA_DISABLED"} {
				t.Setenv(name, "")
			}
			t.Setenv("AWS_CONFIG_FILE", "/dev/null")
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
			remotetest.EndsWithoutCredentials(t, func(credentials string) blob.Store {
				t.Setenv(from, credentials)
				store, err := Open(t.Context(), "s3://bucket/folder?endpoint=http://127.0.0.1:1&region=r", Options{})
				if err != nil {
					t.Fatal(err)
				}
				return store
			})
		})
	}
}
