package version

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestWhatABuildTells(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for name, c := range map[string]struct {
		built *debug.BuildInfo
		etcd  []string
		want  Info
	}{
		"nothing": {nil, nil, Info{Release: Release, Go: runtime.Version(), Platform: here}},
		"a checkout": {
			&debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.time", "2026-03-01T12:00:00Z"), setting("vcs.modified", "false")}},
			[]string{"3.7.3"},
			Info{Release: Release, Commit: "abc", CommitTime: at, Go: "go1.99", Platform: here, Etcd: []string{"3.7.3"}},
		},
		"changed files": {
			&debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.revision", "abc"), setting("vcs.time", "some time"), setting("vcs.modified", "true")}},
			nil,
			Info{Release: Release, Commit: "abc", Modified: true, Go: runtime.Version(), Platform: here},
		},
	} {
		if got := of(c.built, c.etcd); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
