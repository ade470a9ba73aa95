package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

var (
	me    = control.Owner{Namespace: "team", Name: "edge", UID: "1", Kubernetes: "k", Generation: 5}
	other = control.Owner{Namespace: "team", Name: "old", UID: "2", Kubernetes: "k", Generation: 9}
)

// readOutside makes what is seen of a cluster on bare hosts of a block: a world (see TestScenarios), and
//
//	mark mine|other options=a,b at=5        without the line there is none; at is its generation, where this one's is 5
//	options want:a=1 spec:a=2 spec:b=3      of etcd
//	takeover 2|free
//	unreached
func readOutside(t *testing.T, d *datadriven.TestData) Outside {
	t.Helper()
	w, options := Outside{Me: me}, []string{}
	rest := *d
	rest.Input = ""
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "mark":
			owner := me
			if words[1] == "other" {
				owner = other
			}
			for _, word := range words[2:] {
				if at, is := strings.CutPrefix(word, "at="); is {
					owner.Generation = int64(number(at))
				} else {
					owner.Options = strings.Split(strings.TrimPrefix(word, "options="), ",")
				}
			}
			w.Owner = &owner
		case "options":
			options = words[1:]
		case "takeover":
			w.TakeOver = words[1]
		case "unreached":
			w.Unreached = "the store did not answer in time"
		default:
			rest.Input += line
		}
	}
	w.World = read(t, &rest)
	for _, o := range options {
		whose, word, _ := strings.Cut(o, ":")
		name, value, _ := strings.Cut(word, "=")
		of := &w.Want.Spec.Options
		if whose == "spec" {
			of = &w.Spec.Options
		}
		if *of == nil {
			*of = map[string]string{}
		}
		(*of)[name] = value
	}
	return w
}

func outsideText(d Decision) string {
	out := text(d)
	for _, s := range d.Steps {
		if s.Kind == MarkStore {
			out += fmt.Sprintf("mark with options %v\n", s.Options)
		}
		if s.Kind == AmendSpec {
			out += fmt.Sprintf("options: %v\n", s.Spec.Options)
		}
	}
	return out
}

// Whatever is seen: what is not the EtcdCluster's own stays as it is; nothing but the mark is written without the mark of the
// very generation; without a person's word nothing at all under another one's, or a later one, or where the store does not
// answer, nor the mark of a cluster that is to become another; and one step at a time, but for the end.
func TestOutsideWorlds(t *testing.T) {
	names := []string{"a", "b", "c"}
	options := func(t *rapid.T, label string) map[string]string {
		out := map[string]string{}
		for _, n := range names {
			if rapid.Bool().Draw(t, label+n) {
				out[n] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+n+" value")
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		w := Outside{World: worlds(t), Me: me}
		w.Want.Spec.Options = options(t, "want")
		if w.Spec != nil {
			w.Spec.Options, w.Spec.Hold = options(t, "spec"), rapid.Bool().Draw(t, "hold")
		}
		if rapid.Bool().Draw(t, "marked") {
			owner := rapid.SampledFrom([]control.Owner{me, other}).Draw(t, "owner")
			owner.Options = slices.Sorted(maps.Keys(options(t, "owned")))
			owner.Generation = rapid.Int64Range(4, 6).Draw(t, "generation")
			w.Owner = &owner
		}
		if rapid.IntRange(0, 5).Draw(t, "unreached") == 0 {
			w.Unreached = "x"
		}
		if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
			w.Want.Refused = "x"
		}
		w.TakeOver = rapid.SampledFrom([]string{"", "", me.UID, other.UID, Free}).Draw(t, "take over")
		if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
			w.Want.Deleted = now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
		}
		mine := w.Owner != nil && w.Owner.UID == me.UID && w.Owner.Generation <= me.Generation
		late := !w.Want.Deleted.IsZero() && now.Sub(w.Want.Deleted) > letGoAfter
		d := NextOutside(w)
		if len(d.Steps) > 1 && (!late || d.Steps[0].Kind != UnmarkStore || len(d.Steps) > 2 || d.Steps[1].Kind != LetGo) {
			t.Fatalf("%d steps: %+v", len(d.Steps), d.Steps)
		}
		if ends := len(d.Steps) > 0 && d.Steps[len(d.Steps)-1].Kind == LetGo; late && !ends {
			t.Fatal("the end waits for ever")
		}
		for _, s := range d.Steps {
			switch {
			case s.Kind == LetGo:
				if w.Want.Deleted.IsZero() || mine && !late {
					t.Fatalf("lets go")
				}
				continue
			case w.Unreached != "" || w.Want.Refused != "" && s.Kind != UnmarkStore || s.Kind != MarkStore && !mine:
				t.Fatalf("%s is not allowed", s.Kind)
			case w.Owner != nil && !mine && w.TakeOver != w.Owner.UID:
				t.Fatal("it takes another one's mark unasked")
			case w.Want.Paused && s.Kind != UnmarkStore && s.Kind != EndWord:
				t.Fatalf("%s although paused", s.Kind)
			case s.Kind == AmendSpec && w.Owner.Generation != me.Generation:
				t.Fatal("it writes by a mark of another generation")
			case s.Kind == MarkStore && w.Owner == nil && w.TakeOver != Free && w.Intent != nil && w.Spec == nil,
				s.Kind == MarkStore && w.Owner == nil && w.TakeOver != Free && w.Spec != nil && !w.Spec.Equal(w.amended()):
				t.Fatal("a cluster is to become another one unasked")
			}
			if s.Kind != AmendSpec || w.Spec == nil {
				continue
			}
			now, was := *s.Spec, *w.Spec
			if was.Hold && now.MemberCount != was.MemberCount {
				t.Fatal("the count is written under a hold")
			}
			for _, n := range names {
				value, wanted := w.Want.Spec.Options[n]
				before, is := was.Options[n]
				after, stays := now.Options[n]
				owned := slices.Contains(w.Owner.Options, n)
				switch {
				case wanted && (after != value || !owned), !wanted && owned && stays, !wanted && !owned && (is != stays || before != after):
					t.Fatalf("option %s is %q", n, after)
				}
			}
			now.MemberCount, now.EtcdVersion, now.Options = was.MemberCount, was.EtcdVersion, was.Options
			if !now.Equal(was) {
				t.Fatalf("%+v became %+v", was, *s.Spec)
			}
		}
	})
}

// What is amended is settled: the same world with it written has nothing left to do but the mark.
func TestOutsideSettles(t *testing.T) {
	w := Outside{Me: me, World: World{Now: now, Want: Want{Spec: cluster.Spec{MemberCount: 3, EtcdVersion: version(t, ""), Options: map[string]string{"a": "1"}}}}}
	w.Spec = &cluster.Spec{MemberCount: 5, EtcdVersion: version(t, "3.5.35"), Options: map[string]string{"b": "2", "c": "3"}}
	w.Owner = &control.Owner{UID: "1", Options: []string{"b"}}
	var done []Kind
	for range 9 {
		d := NextOutside(w)
		if len(d.Steps) == 0 {
			break
		}
		done = append(done, d.Steps[0].Kind)
		switch s := d.Steps[0]; s.Kind {
		case MarkStore:
			owner := me
			owner.Options = s.Options
			w.Owner = &owner
		case AmendSpec:
			w.Spec = s.Spec
		}
	}
	if want := []Kind{MarkStore, AmendSpec, MarkStore}; !slices.Equal(done, want) || !maps.Equal(w.Spec.Options, map[string]string{"a": "1", "c": "3"}) || !slices.Equal(w.Owner.Options, []string{"a"}) {
		t.Errorf("%v, %+v, %+v", done, w.Spec, w.Owner)
	}
}
