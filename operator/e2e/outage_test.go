package e2e

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An outage of the API server ends the leading operator once. The one that is started then waits, alive and not ready, and works as
// soon as the API server answers; told to end while it waits, it does.
func TestOutageOfTheAPIServer(t *testing.T) {
	g := newRig(t)
	g.by, g.trust = g.server.URL, g.server.CA // nothing answers in its place
	first := g.starts()
	g.leads("")
	within(t, time.Minute, "it is ready", first.probed("/readyz", http.StatusOK))
	g.server.Kill()
	first.ends()
	if code := first.cmd.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("the leading operator did not end by itself: %s", first.cmd.ProcessState)
	}
	second, third := g.starts(), g.starts()
	for _, p := range []*program{second, third} {
		p.awaits("waiting for the API server: it does not answer")
	}
	third.stop()
	if code := third.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end while it waits: %s", third.cmd.ProcessState)
	}
	must(t, g.server.Restart(t.Context()))
	must(t, g.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
	must(t, g.c.Create(t.Context(), object(t, "team", etcdCluster("main", plain))))
	within(t, time.Minute, "it is ready again", second.probed("/readyz", http.StatusOK))
	within(t, time.Minute, "it works again", func(ctx context.Context) error {
		if second.looks(ctx)["etcdcluster"] == 0 {
			return errors.New("it has looked at nothing")
		}
		return nil
	})
}

// Roles may be applied after the Deployment: until then the operator is alive and not ready, and ends when it is told to.
func TestRolesComeLater(t *testing.T) {
	g, binding := newRig(t), &rbacv1.ClusterRoleBinding{}
	within(t, time.Minute, "the roles are there", func(ctx context.Context) error {
		return g.c.Get(ctx, client.ObjectKey{Name: operatorAccount}, binding)
	})
	must(t, g.c.Delete(t.Context(), binding))
	first, second := g.starts(), g.starts()
	for _, p := range []*program{first, second} {
		p.awaits("is forbidden")
	}
	first.stop()
	if code := first.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end while it waits: %s", first.cmd.ProcessState)
	}
	binding.ResourceVersion = ""
	must(t, g.c.Create(t.Context(), binding))
	within(t, 2*time.Minute, "it is ready", second.probed("/readyz", http.StatusOK))
}

// awaits waits until an operator's log has these words, while it is alive and not ready.
func (p *program) awaits(words string) {
	p.t.Helper()
	within(p.t, time.Minute, "its log has: "+words, func(context.Context) error {
		said, err := os.ReadFile(p.log)
		if err == nil && !bytes.Contains(said, []byte(words)) {
			err = errors.New(string(said))
		}
		return err
	})
	must(p.t, p.probed("/healthz", http.StatusOK)(p.t.Context()))
	must(p.t, p.probed("/readyz", http.StatusServiceUnavailable)(p.t.Context()))
}
