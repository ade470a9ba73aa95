package cluster

import "testing"

// TestCountsInARow: commands that were queued over one spec each have their word,
// in order, and a person who writes the spec in between has the last one.
func TestCountsInARow(t *testing.T) {
	v, other := MustVersion("3.6.16"), MustVersion("3.7.3")
	spec := func(n int) *Spec { return &Spec{MemberCount: n, EtcdVersion: v} }
	over := func(members, was int) *CountChange { return &CountChange{Members: members, Was: was, Version: v} }
	written := func(c *CountChange) *CountChange { d := *c; d.Done = true; return &d }
	for name, c := range map[string]struct {
		count  *CountChange
		spec   *Spec
		before *CountChange
		want   *CountChange
	}{
		"over its spec":                        {over(1, 3), spec(3), nil, over(1, 3)},
		"no count":                             {nil, spec(3), over(1, 3), nil},
		"no spec":                              {over(1, 3), nil, nil, nil},
		"a person changed the count":           {over(1, 3), spec(5), nil, nil},
		"a person changed the version":         {over(1, 3), &Spec{MemberCount: 3, EtcdVersion: other}, nil, nil},
		"after one that was written":           {over(5, 3), spec(1), written(over(1, 3)), over(5, 1)},
		"after two":                            {over(7, 3), spec(5), written(over(5, 1)), over(7, 5)},
		"queued when the one before was there": {over(5, 1), spec(1), written(over(1, 3)), over(5, 1)},
		"after one that was not written yet":   {over(5, 3), spec(3), over(1, 3), over(5, 3)},
		"a person wrote after the one before":  {over(5, 3), spec(7), written(over(1, 3)), nil},
		"a person wrote what was not written":  {over(5, 3), spec(1), over(1, 3), nil},
	} {
		got := c.count.On(c.spec, c.before)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWanted(t *testing.T) {
	v := MustVersion("3.6.16")
	for name, c := range map[string]struct {
		count *CountChange
		spec  *Spec
		want  int
		hold  bool
	}{
		"nothing":  {nil, &Spec{MemberCount: 3, EtcdVersion: v, Hold: true}, 3, true},
		"in force": {&CountChange{Members: 1, Was: 3, Version: v}, &Spec{MemberCount: 3, EtcdVersion: v, Hold: true}, 1, false},
		"done":     {&CountChange{Members: 1, Was: 3, Version: v, Done: true}, &Spec{MemberCount: 3, EtcdVersion: v}, 3, false},
		"changed":  {&CountChange{Members: 1, Was: 3, Version: v}, &Spec{MemberCount: 5, EtcdVersion: v}, 5, false},
	} {
		o := &Observation{Spec: c.spec, Store: StoreView{Intent: &Intent{Generation: 2, Count: c.count}}}
		if got := o.Wanted(); got.MemberCount != c.want || got.Hold != c.hold {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if (&Observation{Store: StoreView{Intent: &Intent{Count: &CountChange{Members: 1}}}}).Wanted() != nil {
		t.Error("a count makes a spec where there is none")
	}
}
