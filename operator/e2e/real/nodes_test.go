package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replaceAfter is that of clusters whose machines fail.
const replaceAfter = 30 * time.Second

// machineOf is a machine other than those, and the voter's host that it has.
func (w *world) machineOf(not ...string) (node, host string) {
	w.t.Helper()
	pods, err := w.pods(w.t.Context())
	must(w.t, err)
	ec, err := w.see(w.t.Context())
	must(w.t, err)
	for _, h := range ec.Status.Hosts {
		for _, p := range pods {
			if p.Name == h.Name+"-0" && h.Role == "voter" && !slices.Contains(not, p.Spec.NodeName) {
				return p.Spec.NodeName, h.Name
			}
		}
	}
	w.t.Fatalf("no host elsewhere than on %v", not)
	return "", ""
}

// onMachines is a cluster under a load, and the machine of one of its hosts, which is not the load's.
func onMachines(t *testing.T, name string) (w *world, l *load, node, host string) {
	t.Helper()
	if *nodeCommand == "" {
		t.Skip("no -node: no machine can be told to fail")
	}
	w = begins(t, name, three()+", replaceAfter: "+replaceAfter.String())
	w.ready(2*time.Minute, 3, "applied to ready")
	l = w.uses("load")
	pod := &corev1.Pod{}
	must(t, kube.c.Get(t.Context(), w.key(l.name), pod))
	node, host = w.machineOf(pod.Spec.NodeName)
	return w, l, node, host
}

// TestMachineLost powers a machine off, and it comes back without its disk: a host elsewhere takes its member's place.
func TestMachineLost(t *testing.T) {
	w, l, node, host := onMachines(t, "lost")
	machine(t, "wipe", node)
	began := time.Now()
	defer machine(t, "on", node)
	within(t, 4*time.Minute, "another host votes", func(ctx context.Context) error {
		ec, err := w.see(ctx)
		if err != nil {
			return err
		}
		up := 0
		for _, h := range ec.Status.Hosts {
			if h.Role == "voter" && h.Up && h.Name != host {
				up++
			}
		}
		if up < 3 {
			return errors.New(words(ec))
		}
		return nil
	})
	t.Logf("machine lost to three voters: %.1f s (replaceAfter %s)", time.Since(began).Seconds(), replaceAfter)
	l.since(stats{}, "machine lost")
	l.ends()
}

// TestPodForcedAway cuts a machine off and deletes its pod by force, while the pod goes on behind the cut: no acknowledged write is
// lost, and when the cut has ended there are three voters.
func TestPodForcedAway(t *testing.T) {
	const alone, cut = 5 * time.Second, 90 * time.Second // the member goes on behind the cut before its pod is deleted, and after
	w, l, node, host := onMachines(t, "forced")
	machine(t, "cut", node)
	time.Sleep(alone)
	kill(t, w.ns, host+"-0", 0)
	time.Sleep(cut)
	machine(t, "heal", node)
	w.ready(4*time.Minute, 3, "cut ended to ready")
	l.since(stats{}, "forced away behind a cut")
	l.ends()
}

// TestRandom lets things fail at random, one at a time, and the cluster recover in between.
func TestRandom(t *testing.T) {
	if *randomFor == 0 {
		t.Skip("no -random: how long things shall fail")
	}
	w := begins(t, "random", three()+", replaceAfter: "+replaceAfter.String())
	w.ready(2*time.Minute, 3, "applied to ready")
	l := w.uses("load")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	load := &corev1.Pod{}
	must(t, kube.c.Get(t.Context(), w.key("load"), load))
	size := int32(3)
	faults := []func() string{
		func() string { kill(t, w.ns, w.any(random), -1); return "a pod is deleted" },
		func() string { kill(t, w.ns, w.any(random), 0); return "a pod is killed" },
		func() string {
			must(t, kube.c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(system), client.GracePeriodSeconds(0)))
			kill(t, w.ns, w.any(random), 0)
			return "operators and a pod are killed"
		},
		func() string {
			size = 8 - size
			w.patch(fmt.Sprintf(`{"spec":{"size":%d}}`, size))
			return "another size"
		},
		func() string {
			for range 2 {
				kill(t, w.ns, w.any(random), 0)
			}
			return "two pods are killed"
		},
		func() string {
			host := w.any(random)
			host = host[:len(host)-2]
			must(t, kube.c.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: host}}))
			kill(t, w.ns, host+"-0", 0)
			return "a pod and its claim are deleted"
		},
	}
	if *nodeCommand != "" {
		fail := func(node, what, back string) string {
			machine(t, what, node)
			time.Sleep(time.Duration(10+random.IntN(60)) * time.Second)
			machine(t, back, node)
			return fmt.Sprintf("%s: %s and %s", node, what, back)
		}
		elsewhere := func() string {
			node, _ := w.machineOf(load.Spec.NodeName)
			return node
		}
		faults = append(faults, func() string { return fail(elsewhere(), "off", "on") }, func() string { return fail(elsewhere(), "cut", "heal") })
		if *controlPlane != "" {
			faults = append(faults, func() string { return fail(*controlPlane, "off", "on") })
		}
	}
	var before stats
	for began := time.Now(); time.Since(began) < *randomFor; {
		what := faults[random.IntN(len(faults))]()
		w.ready(8*time.Minute, size, what)
		before = l.since(before, what)
	}
	l.ends()
}

// any is the pod of one of the voters.
func (w *world) any(random *rand.Rand) string {
	w.t.Helper()
	ec, err := w.see(w.t.Context())
	must(w.t, err)
	var all []string
	for _, h := range ec.Status.Hosts {
		if h.Role == "voter" {
			all = append(all, h.Name+"-0")
		}
	}
	return all[random.IntN(len(all))]
}
