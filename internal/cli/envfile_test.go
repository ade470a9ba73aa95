package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// etcdadm auto takes its flags from the file of --env-file, as a container gives no other way to keep a secret.
func TestFlagsFromAnEnvironmentFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(path, []byte("ETCDADM_CLUSTER_NAME=file\nETCDADM_GRPC_PORT=9000\nS3_REGION=r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := withEnvFile([]string{"ETCDADM_CLUSTER_NAME=shell", "ETCDADM_GRPC_PORT=", "ETCDADM_ENV_FILE=/none"}, []string{"/other", path})
	if err != nil || valueIn(env, "ETCDADM_CLUSTER_NAME") != "shell" || valueIn(env, "ETCDADM_GRPC_PORT") != "9000" || valueIn(env, "S3_REGION") != "" {
		t.Errorf("%v, %v", env, err)
	}
	if _, err := withEnvFile([]string{"ETCDADM_ENV_FILE=/none"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if env, err := withEnvFile([]string{"A=b"}, nil); err != nil || len(env) != 1 {
		t.Errorf("%v, %v", env, err)
	}
}
