// Package version says which release of etcdadm a program is, and what it was built
// from. It reads what the Go linker wrote into the program, and asks nobody.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"
)

// Release is this release, for people. The build of a release sets it by -ldflags=-X.
var Release = "0.1.0-dev"

// Info is what a program is made of.
type Info struct {
	Release string `json:"release"`
	// Commit is empty where the build was not told it: outside of a checkout, and with
	// -buildvcs=false.
	Commit string `json:"commit,omitempty"`
	// CommitTime is when the commit was made.
	CommitTime time.Time `json:"commitTime,omitzero"`
	// Modified: files of the checkout were not those of the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Etcd are the releases of etcd that are built in; none: the program runs no etcd.
	Etcd []string `json:"etcd,omitempty"`
}

// Of is this program, with the releases of etcd that it carries.
func Of(etcd ...string) Info {
	built, _ := debug.ReadBuildInfo() // nil: built without modules, which tells no commit
	return of(built, etcd)
}

func of(built *debug.BuildInfo, etcd []string) Info {
	i := Info{Release: Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Etcd: etcd}
	if built == nil {
		return i
	}
	i.Go = cmp.Or(built.GoVersion, i.Go)
	for _, s := range built.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.CommitTime, _ = time.Parse(time.RFC3339, s.Value) // zero: not known
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}
