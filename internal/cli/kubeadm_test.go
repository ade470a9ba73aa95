package cli

import (
	"strings"
	"testing"
)

func TestKubeadmMistakes(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	for line, c := range map[string]struct {
		code int
		says string
	}{
		"kubeadm":            {ExitOK, "Available Commands"},
		"kubeadm prnt":       {ExitUsage, "is etcdadm kubeadm print meant?"},
		"kubeadm print word": {ExitUsage, "unknown command"},
		"kubeadm print --data-dir /nowhere --wait 0": {ExitUsage, "--wait=0s is no time to wait"},
		"kubeadm print --data-dir /nowhere":          {ExitNoCluster, "is it the --data-dir of a daemon"},
		"kubeadm print --data-dir /nowhere -o xml":   {ExitUsage, "is unknown"},
	} {
		if code, out, errs := runEtcdadm(strings.Fields(line)...); code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", line, code, c.code, c.says, out, errs)
		}
	}
}
