package cores

import (
	"runtime"
	"testing"
)

func TestKeepToOne(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "3")
	if KeepToOne(); runtime.GOMAXPROCS(0) != before {
		t.Errorf("%d cores, want those that the environment asks for: %d", runtime.GOMAXPROCS(0), before)
	}
	t.Setenv("GOMAXPROCS", "")
	if KeepToOne(); runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("%d cores, want one", runtime.GOMAXPROCS(0))
	}
}
