package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// Where the record is kept is told with what is not known of it.
func TestStoreStatus(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	a := &answering{report: healthyReport()}
	at := []string{"--endpoint=" + a.serve(t, "test", "a"), "--cluster-name=test"}
	status := func() (code int, w console.Whereabouts, text string) {
		t.Helper()
		code, out, errs := runEtcdadm(append([]string{"store", "status", "-o", "json"}, at...)...)
		if err := json.Unmarshal([]byte(out), &w); err != nil {
			t.Fatalf("%v: %s%s", err, out, errs)
		}
		_, text, _ = runEtcdadm(append([]string{"store", "status"}, at...)...)
		return code, w, text
	}
	o := a.report.Observation
	o.Store = cluster.StoreView{URL: "hosts:///d", Read: true, Marker: true, Intent: &cluster.Intent{Generation: 3, Nonce: "n"}}
	a.report.Keepers = []cluster.HostID{"a", "b", "gone"}
	o.Sights = []cluster.HostSight{{Host: "b", StoreSight: cluster.StoreSight{Marker: true, Generation: 3, Nonce: "n"}}}
	code, w, text := status()
	if code != ExitDegraded || w.In != console.KeptByHosts || w.Store != "" || !strings.Contains(text, "2 of 3 heard, and 2 needed") {
		t.Errorf("%d %+v %s", code, w, text)
	}
	for _, h := range w.Hosts {
		want := console.HostSees{Host: h.Host, Heard: h.Host != "gone", Keeps: h.Host != "c", Same: h.Host == "a" || h.Host == "b"}
		if h != want { // c told nothing, which is not the same
			t.Errorf("%+v, not %+v", h, want)
		}
	}

	a.report.Keepers = []cluster.HostID{"a", "b"}
	if code, w, _ := status(); code != ExitOK || !w.Well() {
		t.Errorf("%d %+v", code, w)
	}

	a.report.Keepers, o.Store.URL = nil, "s3://bucket/folder"
	o.Sights = append(o.Sights, cluster.HostSight{Host: "c", StoreSight: cluster.StoreSight{Unread: "no credentials"}})
	if code, w, text := status(); code != ExitDegraded || w.In != console.KeptInStore || w.Store != "s3://bucket/folder" || !strings.Contains(text, "cannot read it: no credentials") {
		t.Errorf("%d %+v %s", code, w, text)
	}
	o.Store.Read, o.Gaps = false, []cluster.Gap{{Kind: cluster.GapStore, Detail: "it is silent"}}
	if code, w, text := status(); code != ExitDegraded || w.Read || !strings.Contains(text, "it is silent") || strings.Contains(text, "the same") {
		t.Errorf("%d %+v %s", code, w, text)
	}
	a.report.Observation = nil
	if code, w, text := status(); code != ExitNotLeader || w.In != "" || !strings.Contains(text, "not known") {
		t.Errorf("%d %+v %s", code, w, text)
	}
}

// What cannot be a move is refused before anybody is asked.
func TestStoreSetMistakes(t *testing.T) {
	for _, c := range []struct {
		set  storeSet
		code int
	}{
		{storeSet{}, ExitUsage},
		{storeSet{none: true}, ExitUsage},                      // no time
		{storeSet{url: "hosts:///var/lib/etcdadm"}, ExitUsage}, // the same
		{storeSet{none: true, url: "s3://bucket/folder"}, ExitUsage},
		{storeSet{url: "/shared"}, ExitUsage},
		{storeSet{url: "s3://key:word@bucket/folder"}, ExitUsage},
		{storeSet{url: "s3://bucket/folder"}, ExitUsage}, // no time
	} {
		err := c.set.mistake()
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Code != c.code || f.Advice == "" {
			t.Errorf("%+v: %v", c.set, err)
		}
		if err != nil && strings.Contains(err.Error(), "word") {
			t.Error("a secret is shown")
		}
	}
	good := storeSet{url: "s3://bucket/folder", within: time.Minute}
	if err := good.mistake(); err != nil {
		t.Error(err)
	}
}
