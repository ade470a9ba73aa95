package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A flag goes before the environment, and that before the file; no secret is shown.
func TestConfigPrintSaysWhereSettingsComeFrom(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.env")
	text := "ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=s3://user:planted-word@bucket/folder\nETCDADM_DATA_DIR=/var/lib/etcdadm\nETCDADM_GRPC_PORT=7000\nETCDADM_DEAD_AFTER=5m\nS3_SECRET_ACCESS_KEY=planted-word\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETCDADM_GRPC_PORT", "8001")
	t.Setenv("ETCDADM_DEAD_AFTER", "9m")
	run := func(words ...string) (s agentSettings) {
		t.Helper()
		code, out, errs := runEtcdadm(append([]string{"config", "print", "-o", "json", "--root=" + dir, "--file", file}, words...)...)
		if err := json.Unmarshal([]byte(out), &s); code != ExitOK || err != nil || strings.Contains(out+errs, "planted-word") {
			t.Fatalf("%d %v %s%s", code, err, out, errs)
		}
		return s
	}
	of := func(s agentSettings, flag string) string {
		for _, one := range s.Settings {
			if one.Flag == flag {
				return one.Value + " from " + one.From
			}
		}
		return ""
	}
	s := run()
	if of(s, "--grpc-port") != "7000 from file" || of(s, "--dead-after") != "5m from file" || of(s, "--backup-store") != "s3://bucket/folder from file" || of(s, "--address") != "" || !s.Valid || strings.Join(s.Others, " ") != "S3_SECRET_ACCESS_KEY" {
		t.Errorf("%+v", s)
	}
	s = run("--environment", "--all", "--", "--dead-after", "11m", "--discovery=a:1", "--discovery=b:1", "--etcd-insecure")
	for flag, want := range map[string]string{
		"--grpc-port": "8001 from environment", "--dead-after": "11m from flag", "--cluster-name": "etcd from file", "--discovery": "a:1,b:1 from flag",
		"--etcd-insecure": "true from flag", "--address": "127.0.0.1 from default", "--prune-after": "1d from default",
	} {
		if got := of(s, flag); got != want {
			t.Errorf("%s: %q, want %q", flag, got, want)
		}
	}
	if code, out, _ := runEtcdadm("config", "print", "--file", file, "--root="+dir, "--", "--grpc-port=70000"); code != ExitOK || !strings.Contains(out, "would not start") || !strings.Contains(out, "is no port") || strings.Contains(out, "planted-word") {
		t.Errorf("%d %s", code, out)
	}
}

func TestConfigValidate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.env")
	for text, c := range map[string]struct {
		code int
		want string
	}{
		"ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=file:///s\nETCDADM_DATA_DIR=/d\n":                           {ExitOK, "valid: 3 are set"},
		"ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=file:///s\nETCDADM_DATA_DIR=/d\nETCDADM_GRCP_PORT=1\n":      {ExitOK, "is ETCDADM_GRPC_PORT meant?"},
		"ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=file:///s\n":                                                {ExitUsage, "--data-dir is required"},
		"ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=file:///s\nETCDADM_DATA_DIR=/d\nETCDADM_DEAD_AFTER=often\n": {ExitUsage, "$ETCDADM_DEAD_AFTER"},
		"not a line\n": {ExitError, "there is no = in it"},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := runEtcdadm("config", "validate", "--file", file, "--root="+dir); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: %d %s%s, want %d with %q", text, code, out, errs, c.code, c.want)
		}
	}
	if code, _, errs := runEtcdadm("config", "validate", "--root="+dir); code != ExitNoCluster || !strings.Contains(errs, "--file") {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, _ := runEtcdadm("config", "validate", "--root="+dir, "-o", "json", "--", "--cluster-name=c"); code != ExitUsage || !strings.Contains(out, `"valid": false`) {
		t.Errorf("%d %s", code, out)
	}
}
