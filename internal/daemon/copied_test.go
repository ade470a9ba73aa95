package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pod of the operator's does not start in another namespace than that of its cluster. Where its own is not known, it does: that is
// no sign of a copy.
func TestPodOfACopiedNamespace(t *testing.T) {
	for _, test := range []struct {
		pod     string // empty: no file says it
		cluster string
		refused bool
	}{
		{"", "team-a.main.12345678", false}, {"team-a", "team-a.main.12345678", false}, {"team-a\n", "team-a.main.12345678", false},
		{"team-b", "team-a.main.12345678", true}, {"team-b", "main", false}, // made by hand
	} {
		account, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
		if test.pod != "" {
			if err := os.WriteFile(filepath.Join(account, "namespace"), []byte(test.pod), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := &daemon{log: slog.New(slog.DiscardHandler), cfg: Config{
			ClusterName: test.cluster, ControlStore: "kubernetes://team-a/main?account=" + account, DataDir: data,
			Address: "127.0.0.1", GRPCPort: 8000, EtcdAddress: "0.0.0.0", EtcdLog: EtcdLogFile, OnSigterm: SigtermStop,
			ClientURLs: []string{"https://127.0.0.1:2379"}, PeerURLs: []string{"https://127.0.0.1:2380"}, QuarantineURLs: []string{"https://127.0.0.1:2381"},
		}}
		_, err := d.configure(t.Context())
		if refused := err != nil; refused != test.refused || refused && !strings.Contains(err.Error(), "copy of that namespace") {
			t.Errorf("a pod in %q of %s: %v", test.pod, test.cluster, err)
		}
	}
}
