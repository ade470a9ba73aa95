package kubeadm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"sigs.k8s.io/yaml"
)

// theirs are the fields of kubeadm's ClusterConfiguration of v1beta4 that are about etcd, as kubeadm names them. It reads
// strictly: a field that it does not know is an error.
type theirs struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Etcd       struct {
		Local    *struct{} `json:"local,omitempty"`
		External *struct {
			Endpoints     []string `json:"endpoints"`
			HTTPEndpoints []string `json:"httpEndpoints"`
			CAFile        string   `json:"caFile"`
			CertFile      string   `json:"certFile"`
			KeyFile       string   `json:"keyFile"`
		} `json:"external,omitempty"`
	} `json:"etcd,omitempty"`
}

var files = Files{CA: "/pki/etcd/ca.crt", Cert: "/pki/apiserver-etcd-client.crt", Key: "/pki/apiserver-etcd-client.key"}

func observed(members ...cluster.Member) *cluster.Observation {
	view := &cluster.MemberView{Cluster: 1, Members: members, Linearizable: true}
	h := cluster.HostReport{}
	h.Host, h.View = "a", view
	return &cluster.Observation{Cluster: "etcd", Hosts: []cluster.HostReport{h}, Spec: &cluster.Spec{MemberCount: 3}}
}

func member(id cluster.MemberID, urls ...string) cluster.Member {
	return cluster.Member{ID: id, Name: "m", PeerURLs: []string{"https://192.0.2.9:2380"}, ClientURLs: urls}
}

func TestWhatKubeadmReads(t *testing.T) {
	learner := member(4, "https://192.0.2.4:2379")
	learner.Learner = true
	c, err := Of(observed(member(1, "https://192.0.2.2:2379"), member(2, "https://192.0.2.1:2379"), member(3, "https://[2001:db8::3]:2379"), learner), files)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var got theirs
	if err := yaml.UnmarshalStrict(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := []string{"https://192.0.2.1:2379", "https://192.0.2.2:2379", "https://[2001:db8::3]:2379"}
	if e := got.Etcd.External; got.APIVersion != "kubeadm.k8s.io/v1beta4" || got.Kind != "ClusterConfiguration" || e == nil || got.Etcd.Local != nil ||
		!slices.Equal(e.Endpoints, want) || e.CAFile != files.CA || e.CertFile != files.Cert || e.KeyFile != files.Key {
		t.Errorf("%+v\n%s", e, text)
	}
	if n := Missing(observed(member(1), member(2), learner)); n != 1 {
		t.Errorf("%d voters are missing, want 1", n)
	}
	if Missing(nil) != 0 || Missing(observed(member(1), member(2), member(3), member(5))) != 0 {
		t.Error("voters are missing that are not wanted")
	}
	if c, err := Of(observed(member(1, "http://192.0.2.2:2379")), files); err != nil || c.Etcd.External.CAFile+c.Etcd.External.KeyFile != "" {
		t.Errorf("without TLS: %+v, %v", c, err)
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	kept := observed(member(1, "https://192.0.2.1:8001"))
	kept.Store.Intent = &cluster.Intent{Name: "etcd", Generation: 2, Quarantined: true}
	for name, c := range map[string]struct {
		o    *cluster.Observation
		want error
		says string
	}{
		"no leader":          {nil, ErrUnknown, "no agent leads"},
		"no list":            {&cluster.Observation{}, ErrUnknown, "no member list"},
		"one not started":    {observed(member(1, "https://192.0.2.1:2379"), member(2)), ErrUnknown, "has not told its client URLs"},
		"quarantine":         {kept, ErrQuarantine, "usual address"},
		"TLS half turned on": {observed(member(1, "https://192.0.2.1:2379"), member(2, "http://192.0.2.2:2379")), nil, "some do not"},
		"a URL that is none": {observed(member(1, "x")), nil, "which is none"},
	} {
		_, err := Of(c.o, files)
		var told *Error
		if !errors.As(err, &told) || c.want != nil && (!errors.Is(err, c.want) || told.Hint() == "") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A cluster that was founded just now is waited for, and one that stays silent until the time is up.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, said := 0, 0
		look := func(context.Context) (*cluster.Observation, error) {
			if looks++; looks < 4 {
				return nil, nil
			}
			return observed(member(1, "https://192.0.2.1:2379")), nil
		}
		say := func(string) { said++ }
		if c, o, err := Await(t.Context(), look, files, say); err != nil || o == nil || len(c.Etcd.External.Endpoints) != 1 || looks != 4 || said != 1 {
			t.Errorf("%+v, %v after %d looks, told %d times", c, err, looks, said)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), DefaultWait)
		defer cancel()
		silent := func(context.Context) (*cluster.Observation, error) { return nil, nil }
		if _, _, err := Await(ctx, silent, files, say); !errors.Is(err, ErrUnknown) || time.Since(began) != DefaultWait {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		broken := errors.New("no agent answers")
		if _, _, err := Await(t.Context(), func(context.Context) (*cluster.Observation, error) { return nil, broken }, files, say); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
}
