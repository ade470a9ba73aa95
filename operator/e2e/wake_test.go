package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
)

// A cluster whose authorities ended while it slept, or after it was woken while the operator was off, gets others as it wakes, before a
// pod starts and by nobody's word: they have ended by the API server's clock, too. By the operator's alone they have not, and nothing is
// made in their place.
func TestRotateAsItWakes(t *testing.T) {
	const year = 365 * 24 * time.Hour
	h := newHand(t)
	r, _ := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	sleep := func() {
		t.Helper()
		h.patch(`{"spec":{"hibernate":true}}`)
		must(t, h.settle(r, "asleep", func() error {
			if n := len(h.runs()); n > 0 {
				return fmt.Errorf("%d run", n)
			}
			return nil
		}))
		h.uids = nil
		h.patch(`{"spec":{"hibernate":false}}`)
	}
	sleep()
	h.skip = 11 * year
	must(t, h.settle(r, "by one clock", h.blocked("AuthorityEnded")))
	if _, said := h.authorities(); said.Step != 1 {
		t.Fatalf("the operator's clock alone has it at %+v", said)
	}
	h.skip = 0
	must(t, h.settle(r, "by both again", h.ready(3, 3)))
	sleep()
	made := time.Now().Add(-11 * year)
	ended, err := authority.Create(made)
	must(t, err)
	is, err := authority.Describe(ended)
	must(t, err)
	ended, err = authority.Create(time.Now().Add(2*time.Second - is.Ends.Sub(made))) // they end after the EtcdCluster was changed last
	must(t, err)
	is, err = authority.Describe(ended)
	must(t, err)
	secret, said := &corev1.Secret{}, map[string]any{}
	must(t, h.c.Get(t.Context(), h.key("main-authorities"), secret))
	must(t, json.Unmarshal([]byte(secret.Annotations[shape.AnnotationAuthorities]), &said))
	said["trusts"], said["signs"], said["member"], said["due"], said["ends"] = is.Trusts, is.Signs, is.Member, is.Due, is.Ends
	text, err := json.Marshal(said)
	must(t, err)
	secret.Annotations[shape.AnnotationAuthorities], secret.Data = string(text), ended
	must(t, h.c.Update(t.Context(), secret))
	time.Sleep(time.Until(is.Ends) + 2*time.Second) // the API server tells whole seconds
	must(t, h.settle(r, "awake", h.and(h.ready(3, 3), h.at("done", 0), func() error {
		files, _ := h.authorities()
		if slices.Equal(files["etcd-peers-ca.key"], ended["etcd-peers-ca.key"]) || !slices.Equal(files["etcd-peers-ca.aside.key"], ended["etcd-peers-ca.key"]) {
			return fmt.Errorf("%d files", len(files))
		}
		return nil
	})))
}

// A cluster that slept for longer than its certificates live, and whose keys are lost, starts nothing with them, and gets others by a
// person's word before a pod starts.
func TestWakesWithoutKeys(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	h.patch(`{"spec":{"hibernate":true}}`)
	asleep := func() error {
		if n := len(h.runs()); n > 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	}
	must(t, h.settle(r, "asleep", asleep))
	h.uids = nil
	secret, then := &corev1.Secret{}, time.Now().Add(-2*365*24*time.Hour)
	was, err := authority.Create(then)
	must(t, err)
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("main-%d", n)
		must(t, h.c.Get(t.Context(), h.key(name+"-leaves"), secret))
		secret.Data, _, err = authority.Issue(was, nil, authority.Host{Cluster: "c", Name: name, DNS: []string{name}}, then)
		must(t, err)
		must(t, h.c.Update(t.Context(), secret))
	}
	must(t, h.c.Get(t.Context(), h.key("main-authorities"), secret))
	must(t, h.c.Delete(t.Context(), secret))
	h.patch(`{"spec":{"hibernate":false}}`)
	must(t, h.settle(r, "told", h.and(h.blocked("AuthorityGone"), asleep)))
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "awake", h.and(h.ready(3, 3), h.at("done", 1))))
	must(t, h.c.Get(t.Context(), h.key("main-1-leaves"), secret))
	if end := authority.LeavesEnd(secret.Data); end.Before(time.Now()) {
		t.Errorf("its certificates end at %s", end)
	}
}
