package host_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"

	"etcdadm.io/cluster"
)

// scribble writes over everything that a value points to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				scribble(f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Uint64:
		v.SetUint(4242)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	}
}

// TestNothingIsShared: in one process, such as the daemon with its own host or
// the simulator, a reply is not serialized. What a caller does with it, or with
// what it passed in, does not reach the host. The race detector watches.
func TestNothingIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		intent := func() *cluster.Intent {
			return &cluster.Intent{
				Name: "test", Generation: 1, Nonce: "n1", Write: 3, Lost: []cluster.HostID{"h4"}, CommandsRun: []string{"c"},
				Founders: []cluster.Founder{{Host: "h1", URLs: cluster.URLs{Peer: []string{"p"}, Client: []string{"c"}, Quarantine: []string{"q"}}}},
				Voters:   []cluster.Voter{{Member: 2, PeerURLs: []string{"p"}}}, Next: []cluster.Voter{{Member: 3, PeerURLs: []string{"p"}}},
				History: []cluster.PastGeneration{{Generation: 1, Voters: [][]cluster.Voter{{{Member: 1, PeerURLs: []string{"p"}}}}}},
			}
		}
		m.etcd.mu.Lock()
		m.etcd.status.Alarms, m.etcd.status.Errors = []string{"a"}, []string{"e"}
		m.etcd.view.Members = []cluster.Member{{ID: 9, PeerURLs: []string{"p"}, ClientURLs: []string{"c"}}}
		m.etcd.mu.Unlock()
		look := func(in *cluster.Intent) *cluster.HostState {
			r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
			if r.State == nil {
				t.Fatalf("%+v", r)
			}
			r.State.Clock = r.State.Clock.Round(0)
			return r.State
		}
		want := look(intent())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 5 {
					in := intent()
					scribble(reflect.ValueOf(look(in)))
					scribble(reflect.ValueOf(in))
					peers := d.Peers()
					scribble(reflect.ValueOf(&peers))
					scribble(reflect.ValueOf(d.Spec()))
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if got := look(nil); !reflect.DeepEqual(got.Local, want.Local) || !reflect.DeepEqual(got.Intent, want.Intent) ||
			!reflect.DeepEqual(got.URLs, want.URLs) || !reflect.DeepEqual(got.View, want.View) || !reflect.DeepEqual(got.Status, want.Status) {
			t.Fatalf("a caller changed the host:\n%+v\n%+v", got, want)
		}
	})
}
