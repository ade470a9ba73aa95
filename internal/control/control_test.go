package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

const (
	created = "control/etcd-cluster-created"
	spec    = "control/etcd-cluster-spec"
	more    = "control/etcd-cluster-spec-etcdadm.json"
)

func put(t *testing.T, s blob.Store, key, data string) {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), s, key, []byte(data), blob.Any); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s blob.Store, key string) string {
	t.Helper()
	data, _, err := blob.ReadAll(t.Context(), s, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/fixtures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func founding() *cluster.Intent {
	return &cluster.Intent{
		Timestamp: 1795216395124450019, Name: "etcd", Generation: 1, Nonce: "n1", Token: "t1", Version: cluster.MustVersion("3.6.16"),
		Founders: []cluster.Founder{{Host: "a", Disk: "d", Member: 0x8e9e05c52164694d, URLs: cluster.URLs{Peer: []string{"http://127.0.0.1:2380"}}}},
		Source:   cluster.Source{Kind: "nothing"}, Write: 1, State: cluster.IntentFounding,
	}
}

func TestReadsWhatThePredecessorWrote(t *testing.T) {
	for version, want := range map[string]struct {
		spec cluster.Spec
		at   int64
	}{
		"3.5": {cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.5.35")}, 1795216395124450019},
		"3.6": {cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}, 1795218050563060910},
	} {
		s := memory.New()
		put(t, s, spec, fixture(t, "spec-"+version))
		put(t, s, created, fixture(t, "created-"+version))
		f := control.New(s, "etcd")
		read, err := f.ReadSpec(t.Context())
		if err != nil || !read.Spec.Equal(want.spec) || len(read.Warnings) != 0 {
			t.Errorf("spec %+v, %v", read, err)
		}
		in, marker, _, err := f.ReadIntent(t.Context())
		if err != nil || !marker || !in.Adopted() || in.State != cluster.IntentFounded || in.Timestamp != want.at {
			t.Errorf("intent %+v, %t, %v", in, marker, err)
		}
		if in, err := (control.Intents{Folder: f}).ReadIntent(t.Context()); !in.Adopted() || err != nil {
			t.Errorf("a host sees the intent %+v, %v", in, err)
		}
	}
}

func TestIntent(t *testing.T) {
	ctx, s := t.Context(), memory.New()
	f := control.New(s, "etcd")
	if in, marker, _, err := f.ReadIntent(ctx); in != nil || marker || err != nil {
		t.Fatalf("an empty store has the intent %v, %t, %v", in, marker, err)
	}
	want := founding()
	if _, err := f.CreateIntent(ctx, want); err != nil {
		t.Fatal(err)
	}
	other := control.New(s, "etcd")
	got, marker, tag, err := other.ReadIntent(ctx)
	if err != nil || !marker {
		t.Fatal(marker, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	// The predecessor reads the timestamp as a number.
	if !strings.Contains(get(t, s, created), `"timestamp": 1795216395124450019,`) {
		t.Error("the timestamp is not a number at the top level")
	}
	rival := founding()
	rival.Nonce = "n2"
	if _, err := other.CreateIntent(ctx, rival); !errors.Is(err, control.ErrConflict) {
		t.Errorf("a second founding gave %v", err)
	}
	next := got.Clone()
	next.State, next.Write = cluster.IntentFounded, 2
	if _, err := other.ReplaceIntent(ctx, tag, next); err != nil {
		t.Fatal(err)
	}
	late := got.Clone()
	late.Write, late.Nonce = 2, "late"
	if _, err := f.ReplaceIntent(ctx, tag, late); !errors.Is(err, control.ErrConflict) {
		t.Errorf("a late write gave %v", err)
	}
	if got, _, _, err := f.ReadIntent(ctx); err != nil || got.State != cluster.IntentFounded {
		t.Errorf("read %+v, %v", got, err)
	}
}

// transfers counts the objects that a store really sent.
type transfers struct {
	blob.Store
	sent int
}

func (c *transfers) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	o, err := c.Store.Get(ctx, key, opts)
	if err == nil {
		c.sent++
	}
	return o, err
}

func TestWhatDoesNotChangeIsTransferredOnce(t *testing.T) {
	ctx, s := t.Context(), &transfers{Store: memory.New()}
	put(t, s, created, fixture(t, "created-3.6"))
	put(t, s, spec, fixture(t, "spec-3.6"))
	f := control.New(s, "etcd")
	for range 3 {
		if in, _, _, err := f.ReadIntent(ctx); err != nil || !in.Adopted() {
			t.Fatal(in, err)
		}
		if r, err := f.ReadSpec(ctx); err != nil || r.Spec.MemberCount != 3 {
			t.Fatal(r, err)
		}
	}
	if s.sent != 2 {
		t.Errorf("%d objects were sent, want 2", s.sent)
	}
	put(t, s, spec, `{"memberCount":1,"etcdVersion":"3.6.16"}`)
	if r, err := f.ReadSpec(ctx); err != nil || r.Spec.MemberCount != 1 || s.sent != 3 {
		t.Error(r, err, s.sent)
	}
}

// The store writes, and the reply is lost: reading back settles it.
func TestLostReply(t *testing.T) {
	ctx, s := t.Context(), memory.New()
	f := control.New(s, "etcd")
	lose := func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put {
			return memory.Fault{Lost: errors.New("connection reset")}
		}
		return memory.Fault{}
	}
	s.Inject(lose)
	tag, err := f.CreateIntent(ctx, founding())
	if err != nil {
		t.Fatal(err)
	}
	next := founding()
	next.Write = 2
	if _, err := f.ReplaceIntent(ctx, tag, next); err != nil {
		t.Fatal(err)
	}
	// A write that was not made, by an error that leaves it open.
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	})
	third := founding()
	third.Write = 3
	if _, err := f.ReplaceIntent(ctx, tag, third); !errors.Is(err, control.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
}

// A store that took nothing leaves nothing open.
func TestWriteToWhatIsOnlyRead(t *testing.T) {
	s := memory.New()
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put {
			return memory.Fault{Err: fmt.Errorf("%w: read-only file system", blob.ErrReadOnly)}
		}
		return memory.Fault{}
	})
	_, err := control.New(s, "etcd").CreateIntent(t.Context(), founding())
	if !errors.Is(err, blob.ErrReadOnly) || errors.Is(err, control.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
}

func TestIntentRefused(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want error
	}{
		"empty":             {"", control.ErrMalformed},
		"not JSON":          {"created\n", control.ErrMalformed},
		"cut short":         {`{"timestamp":1`, control.ErrMalformed},
		"no nonce":          {`{"timestamp":1,"name":"etcd","generation":2}`, control.ErrMalformed},
		"generation zero":   {`{"timestamp":1,"name":"etcd","generation":0,"nonce":"n","token":"t"}`, control.ErrMalformed},
		"of a later tool":   {`{"timestamp":1,"name":"etcd","generation":1,"nonce":"n","token":"t","write":1,"state":"founded","flavour":1}`, control.ErrMalformed},
		"two objects":       {`{"timestamp":1}{}`, control.ErrMalformed},
		"no number":         {`{"timestamp":1,"generation":"one"}`, control.ErrMalformed},
		"no whole number":   {`{"timestamp":1.5}`, control.ErrMalformed},
		"not exact":         {`{"timestamp":1.8014398509481985e16}`, control.ErrMalformed},
		"not exact, below":  {`{"timestamp":-1.8014398509481985e16}`, control.ErrMalformed},
		"of another system": {`{"timestamp":1,"name":"events","generation":1,"nonce":"n","token":"t","write":1,"state":"founded"}`, control.ErrOtherCluster},
	} {
		s := memory.New()
		put(t, s, created, test.data)
		f := control.New(s, "etcd")
		_, marker, _, err := f.ReadIntent(t.Context())
		if !marker || !errors.Is(err, test.want) {
			t.Errorf("%s: %t, %v", name, marker, err)
		}
		var hint *blob.Error
		if !errors.As(err, &hint) || hint.Hint() == "" {
			t.Errorf("%s: no hint in %v", name, err)
		}
		if _, err := f.CreateIntent(t.Context(), founding()); !errors.Is(err, control.ErrConflict) {
			t.Errorf("%s: writing over it gave %v", name, err)
		}
	}
	other := founding()
	other.Name = "events"
	if _, err := control.New(memory.New(), "etcd").CreateIntent(t.Context(), other); !errors.Is(err, control.ErrOtherCluster) {
		t.Errorf("writing another cluster's intent gave %v", err)
	}
}

func TestStoreThatIgnoresConditions(t *testing.T) {
	ctx, s := t.Context(), memory.NewWith(memory.Ignore)
	f := control.New(s, "etcd")
	if can, err := f.Probe(ctx); err != nil || can.Conditional || f.Conditional() {
		t.Fatal(can, err)
	}
	if _, err := f.CreateIntent(ctx, founding()); err != nil {
		t.Fatal(err)
	}
	rival := founding()
	rival.Nonce = "n2"
	if _, err := f.CreateIntent(ctx, rival); !errors.Is(err, control.ErrConflict) {
		t.Fatalf("got %v", err)
	}
}

func TestSpec(t *testing.T) {
	plain := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}
	tests := []struct {
		name, spec, more string
		want             *cluster.Spec
		warnings         int
		err              error
	}{
		{name: "none"},
		{name: "plain", spec: `{"memberCount":3,"etcdVersion":"3.6.16"}`, want: &plain},
		{name: "snake case and strings", spec: ` { "member_count" : "3" , "etcd_version" : "v3.6.16" } `, want: &plain},
		{name: "float", spec: `{"memberCount":3.0,"etcdVersion":"3.6.16"}`, want: &plain},
		{name: "unknown key", spec: `{"memberCount":3,"etcdVersion":"3.6.16","color":{}}`, want: &plain, warnings: 1},
		{name: "both spellings", spec: `{"memberCount":3,"member_count":3,"etcdVersion":"3.6.16"}`, err: control.ErrMalformed},
		{name: "even", spec: `{"memberCount":4,"etcdVersion":"3.6.16"}`, err: cluster.ErrSpec},
		{name: "absurd", spec: `{"memberCount":4294967299,"etcdVersion":"3.6.16"}`, err: control.ErrMalformed},
		{name: "negative", spec: `{"memberCount":-3,"etcdVersion":"3.6.16"}`, err: cluster.ErrSpec},
		{name: "nothing in it", spec: `{}`, err: cluster.ErrSpec},
		{name: "version", spec: `{"memberCount":3,"etcdVersion":"latest"}`, err: control.ErrMalformed},
		{name: "not an object", spec: `[]`, err: control.ErrMalformed},
		{name: "null", spec: `null`, err: control.ErrMalformed},
		{name: "settings", spec: `{"memberCount":3,"etcdVersion":"3.6.16"}`, more: `{"hold":true,"deadAfter":"1d","autoRecoverAfter":"2h","hosts":["a","b","c"],"options":{"quota-backend-bytes":"1"}}`,
			want: &cluster.Spec{MemberCount: 3, EtcdVersion: plain.EtcdVersion, Hold: true, DeadAfter: 24 * time.Hour, AutoRecoverAfter: 2 * time.Hour, Hosts: []cluster.HostID{"a", "b", "c"}, Options: map[string]string{"quota-backend-bytes": "1"}}},
		{name: "settings malformed", spec: `{"memberCount":3,"etcdVersion":"3.6.16"}`, more: `{"hold":"perhaps"}`, err: control.ErrMalformed},
		{name: "settings unknown key", spec: `{"memberCount":3,"etcdVersion":"3.6.16"}`, more: `{"x":1}`, want: &plain, warnings: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := memory.New()
			if test.spec != "" {
				put(t, s, spec, test.spec)
			}
			if test.more != "" {
				put(t, s, more, test.more)
			}
			got, err := control.New(s, "etcd").ReadSpec(t.Context())
			if !errors.Is(err, test.err) || len(got.Warnings) != test.warnings {
				t.Fatalf("got %+v, %v", got, err)
			}
			if diff := cmp.Diff(test.want, got.Spec); diff != "" {
				t.Error(diff)
			}
			if got.Standing != nil && (got.Spec != nil || err == nil) || got.Standing == nil && err != nil && test.name != "settings malformed" {
				t.Errorf("left of it is %+v", got.Standing)
			}
		})
	}
}

// What a spec that is refused leaves for repairs is what is beside it, if that can be
// read: a hold that nobody can read may be there.
func TestStanding(t *testing.T) {
	for _, refused := range []string{`{"memberCount":4,"etcdVersion":"3.6.16"}`, `{"memberCount":3,"etcdVersion":"latest"}`, `created`} {
		for name, test := range map[string]struct {
			more string
			want *cluster.Standing
		}{
			"nothing":   {"", &cluster.Standing{}},
			"settings":  {`{"hold":true,"deadAfter":"1d","hosts":["a","b"],"options":{"x":"1"}}`, &cluster.Standing{Hold: true, DeadAfter: 24 * time.Hour, Hosts: []cluster.HostID{"a", "b"}, Options: map[string]string{"x": "1"}}},
			"malformed": {`{"hold":"perhaps"}`, nil},
			"no time":   {`{"deadAfter":"soon"}`, nil},
		} {
			t.Run(refused+" "+name, func(t *testing.T) {
				s := memory.New()
				put(t, s, spec, refused)
				if test.more != "" {
					put(t, s, more, test.more)
				}
				got, err := control.New(s, "etcd").ReadSpec(t.Context())
				if err == nil || errors.Is(err, cluster.ErrSpec) == errors.Is(err, control.ErrMalformed) {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got.Standing, cmpopts.EquateEmpty()); diff != "" || got.Spec != nil {
					t.Error(diff, got.Spec)
				}
			})
		}
	}
	s := memory.New()
	put(t, s, spec, `{"memberCount":4,"etcdVersion":"3.6.16"}`)
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Key == more {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	})
	if got, err := control.New(s, "etcd").ReadSpec(t.Context()); errors.Is(err, cluster.ErrSpec) || err == nil || got.Standing != nil {
		t.Errorf("settings that the store does not give: %+v, %v", got, err)
	}
}

func TestWriteSpec(t *testing.T) {
	ctx, s := t.Context(), memory.New()
	f := control.New(s, "etcd")
	full := cluster.Spec{MemberCount: 5, EtcdVersion: cluster.MustVersion("3.6.16"), Hold: true, DeadAfter: time.Minute, AutoRecoverAfter: time.Hour}
	if err := f.WriteSpec(ctx, full); err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(get(t, s, spec)), &keys); err != nil || len(keys) != 2 {
		t.Errorf("the spec object is %v, %v", keys, err)
	}
	if got, err := f.ReadSpec(ctx); err != nil || !got.Spec.Equal(full) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := f.ConfigureCluster(ctx, 3, full.EtcdVersion); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadSpec(ctx); err != nil || got.Spec.MemberCount != 3 || !got.Spec.Hold {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := f.ConfigureCluster(ctx, 2, full.EtcdVersion); !errors.Is(err, cluster.ErrSpec) {
		t.Errorf("an even count gave %v", err)
	}
	if err := f.Settings().Hold(ctx, false); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadSpec(ctx); err != nil || got.Spec.Hold || got.Spec.DeadAfter != time.Minute {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := f.WriteSpec(ctx, cluster.Spec{MemberCount: 1, EtcdVersion: full.EtcdVersion}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadSpec(ctx); err != nil || got.Spec.DeadAfter != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memory.New()
		f := control.New(s, "etcd")
		put(t, s, spec, `{}`)
		put(t, s, "control/2026-11-20T23:17:07Z-000000/_command.json", `{"timestamp":"1795216627000000000","restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.5.35"},"backup":"2026-11-20T23:14:17Z-000001"}}`)
		put(t, s, "control/2026-11-20T23:17:06Z-000000/_command.json", `{"timestamp":1795216628000000000,"restore_backup":{"cluster_spec":{"member_count":"3"},"backup":"b"}}`)
		put(t, s, "control/2026-11-20T23:10:00Z-000000/_command.json", `{"timestamp":`)
		put(t, s, "control/2026-11-20T23:10:01Z-000000/_command.json", `{"timestamp":"1","restoreBackup":{"backup":"../../etc"}}`)
		put(t, s, "control/2026-11-20T23:10:02Z-000000/_command.json", `{"timestamp":"1","explode":{}}`)
		put(t, s, "control/deeper/2026-11-20T23:10:02Z-000000/_command.json", `{}`)

		first, err := f.AddRestore(ctx, control.RestoreBackup{Backup: "x", Spec: cluster.Spec{MemberCount: 1, EtcdVersion: cluster.MustVersion("3.6.16")}, Lost: []cluster.HostID{"c"}})
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.AddRestore(ctx, control.RestoreBackup{Backup: "y"})
		if err != nil || first == second || !strings.HasSuffix(second, "-000001") {
			t.Fatal(first, second, err)
		}
		if got, want := get(t, s, "control/"+first+"/_command.json"), `{"timestamp":"946684800000000000","restoreBackup":{"clusterSpec":{"memberCount":1,"etcdVersion":"3.6.16"},"backup":"x"}}`; got != want {
			t.Errorf("wrote %s", got)
		}
		list, err := f.Commands(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range list {
			if c.Err != nil {
				names = append(names, c.Name+"!")
				continue
			}
			names = append(names, c.Name)
		}
		want := []string{first, second, "2026-11-20T23:17:07Z-000000", "2026-11-20T23:17:06Z-000000",
			"2026-11-20T23:10:00Z-000000!", "2026-11-20T23:10:01Z-000000!", "2026-11-20T23:10:02Z-000000!"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatal(diff)
		}
		if r := list[0].Restore; r.Backup != "x" || !slices.Equal(r.Lost, []cluster.HostID{"c"}) || r.Spec.MemberCount != 1 {
			t.Errorf("got %+v", r)
		}
		if err := f.DeleteCommand(ctx, first); err != nil {
			t.Fatal(err)
		}
		if left, err := s.List(ctx, "control/"+first); err != nil || len(left) != 0 {
			t.Errorf("left %v, %v", left, err)
		}
		for _, name := range []string{first, "..", "../x", ""} {
			if err := f.DeleteCommand(ctx, name); !errors.Is(err, control.ErrNoCommand) {
				t.Errorf("deleting %q gave %v", name, err)
			}
		}
		if _, err := f.AddRestore(ctx, control.RestoreBackup{Backup: "../x"}); err == nil {
			t.Error("a path was taken for a backup name")
		}
	})
}

// A command's name is its ID: one that ended leaves its folder, and its name
// is given to no other, of whichever kind, in the same second or moment.
func TestCommandNamesAreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		f := control.New(memory.New(), "etcd")
		used := map[string]bool{}
		for i := range 6 {
			add := func() (string, error) { return f.AddRestore(ctx, control.RestoreBackup{Backup: "x"}) }
			if i%2 == 0 {
				add = func() (string, error) { return f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup}) }
			}
			name, err := add()
			if err != nil || used[name] {
				t.Fatalf("the name %q, used before: %t (%v)", name, used[name], err)
			}
			used[name] = true
			if err := f.EndCommand(ctx, control.Ended{Name: name, Result: "done"}); err != nil {
				t.Fatal(err)
			}
			if i > 2 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		if ended, err := f.EndedCommands(ctx); err != nil || len(ended) != len(used) {
			t.Errorf("%d commands ended, %d are remembered (%v)", len(used), len(ended), err)
		}
	})
}

func TestRecord(t *testing.T) {
	ctx, s := t.Context(), memory.New()
	f := control.New(s, "etcd")
	raise := func(id cluster.ClusterID, p cluster.Progress) control.Record {
		t.Helper()
		r, err := f.RaiseRecord(ctx, id, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	raise(1, cluster.Progress{Revision: 10, Term: 2, Index: 20})
	raise(1, cluster.Progress{Revision: 9, Term: 3, Index: 5})
	got := raise(2, cluster.Progress{Revision: 5, Term: 2, Index: 1})
	want := control.Record{Revision: 10, Clusters: []control.ClusterRecord{{Cluster: 1, Term: 3, Index: 5}, {Cluster: 2, Term: 2, Index: 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r, err := f.ReadRecord(ctx); err != nil || !r.Equal(want) {
		t.Errorf("read %+v, %v", r, err)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put {
			t.Error("nothing had changed, and it was written")
		}
		return memory.Fault{}
	})
	raise(1, cluster.Progress{Revision: 10, Term: 3, Index: 4})
}

func TestRecordNeverFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r control.Record
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before := r
			p := cluster.Progress{Revision: rapid.Int64Range(0, 9).Draw(t, "revision"), Term: rapid.Uint64Range(0, 3).Draw(t, "term"), Index: rapid.Uint64Range(0, 9).Draw(t, "index")}
			r = r.With(cluster.ClusterID(rapid.Uint64Range(0, 3).Draw(t, "cluster")), p)
			if r.Revision < before.Revision || r.Revision < p.Revision {
				t.Fatalf("%+v after %+v", r, before)
			}
			if !before.With(0, cluster.Progress{}).Equal(before) {
				t.Fatal("nothing raises something")
			}
		}
	})
}

func TestStatus(t *testing.T) {
	ctx, f := t.Context(), control.New(memory.New(), "etcd")
	if _, ok, err := f.ReadStatus(ctx); ok || err != nil {
		t.Fatal(ok, err)
	}
	want := control.Status{Cluster: "etcd", Leader: "a", At: time.Unix(1, 0).UTC(), Rule: "steady", Members: []control.MemberStatus{{Member: 0x8e9e05c52164694d, Up: true}}}
	if err := f.WriteStatus(ctx, want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := f.ReadStatus(ctx)
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Error(diff, ok, err)
	}
}
