package main

import (
	"testing"
)

func TestVerdictComparesMedians(t *testing.T) {
	for _, c := range []struct {
		name       string
		target     target
		hand, ours []float64
		want       string
	}{
		{"below a bound", atMost(2), nil, []float64{1, 1.9, 9}, "pass"},
		{"at a bound", atMost(2), nil, []float64{2}, "pass"},
		{"above a bound", atMost(2), nil, []float64{1, 2.1, 2.2}, "MISS"},
		{"an even number of runs", atMost(2), nil, []float64{1.8, 2.1}, "pass"},
		{"within the allowance", overByHand(0.3), []float64{1, 1, 5}, []float64{1.2}, "pass"},
		{"over the allowance", overByHand(0.3), []float64{1}, []float64{1.4}, "MISS"},
		{"ours gave nothing", atMost(2), []float64{1}, nil, "NO VALUE"},
		{"nothing to compare with", overByHand(0.3), nil, []float64{1}, "NO VALUE"},
	} {
		r := result{row: row{target: c.target}, hand: c.hand, ours: c.ours}
		if got := r.verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFailedRunsGiveNoValue(t *testing.T) {
	ours := []sample{{Values: []float64{3, 30}}, {Err: "it did not start"}, {Values: []float64{1, 10}}}
	r := sumUp("m", row{}, 1, nil, ours)
	if r.failed != 1 || len(r.ours) != 2 || r.ours[0] != 10 || r.ours[1] != 30 {
		t.Errorf("failed %d, values %v; want 1 and [10 30]", r.failed, r.ours)
	}
	if anyFailed([]result{r}) == nil {
		t.Error("a failed run is no error")
	}
}

func TestOnlyOurProcessesAreFound(t *testing.T) {
	for _, c := range []struct {
		cmdline string
		want    bool
	}{
		{"/x/etcd\x00--data-dir=/tmp/run/h1/data\x00", true},
		{"/proc/self/exe\x00etcd\x00--data-dir=/tmp/run/h1/data\x00", true},
		{"/x/etcd-manager\x00--data-dir=/tmp/run/h1\x00", true},
		{"/x/etcd\x00--data-dir=/tmp/run2/h1/data\x00", false},
		{"tail\x00-f\x00/tmp/run/h1.log\x00", false},
		{"", false},
	} {
		if got := argumentUnder(c.cmdline, "/tmp/run"); got != c.want {
			t.Errorf("%q: %t, want %t", c.cmdline, got, c.want)
		}
	}
}
