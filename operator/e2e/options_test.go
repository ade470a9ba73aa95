package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
)

// Other options roll through real members: the cluster is ready by the new spec once the last one runs with them, and not before.
func TestReadyOnceOptionsAreRolled(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 3, version: 3.7.3, storage: {size: 8Gi}"))))
	h.generation(1)
	option := fmt.Sprintf("--max-txn-ops=%d", 1000+os.Getpid())
	h.patch(fmt.Sprintf(`{"spec":{"options":{"max-txn-ops":"%d"}}}`, 1000+os.Getpid()))
	said := map[string]bool{}
	h.settled(restoresWithin, "ready by the new spec", func() error {
		ec, c := h.see(), h.condition(v1alpha1.Ready)
		said[c.Reason] = true
		if c.ObservedGeneration != ec.Generation || c.Status != "True" {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return nil
	})
	if n := runs(t, option); n != 3 {
		t.Errorf("it is ready, and %d members run with %s", n, option)
	}
	if !said["Applying"] {
		t.Errorf("it showed %v meanwhile", said)
	}
}

// runs counts processes with an argument.
func runs(t *testing.T, argument string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		data, _ := os.ReadFile(name) // it may have ended
		for _, word := range strings.Split(string(data), "\x00") {
			if word == argument {
				n++
			}
		}
	}
	return n
}
