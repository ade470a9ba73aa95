package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// The table of options, held against real etcd.

func TestMain(m *testing.M) {
	testetcd.SideBySide(6)
	os.Exit(m.Run())
}

// say runs etcd with arguments that make it print and end, and returns what it
// prints and whether it ended well.
func say(t *testing.T, etcd string, args ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, etcd, args...)
	cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=" + goruntime.GOARCH}
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %q: %v", etcd, args, ctx.Err())
	}
	return out.String(), err == nil
}

// realReleases are one of each line of the table, and whatever else of these
// lines lies in the cache.
func realReleases(t *testing.T) map[cluster.Version]string {
	t.Helper()
	found := map[cluster.Version]string{}
	for _, v := range append(testetcd.Versions(), testetcd.V34, testetcd.V33, testetcd.V32) {
		found[cluster.MustVersion(v)] = testetcd.Binary(t, v).Etcd
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	suffix := "-" + goruntime.GOOS + "-" + goruntime.GOARCH
	others, _ := filepath.Glob(filepath.Join(cache, "etcd-v*"+suffix, "etcd"))
	for _, path := range others {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "etcd-v"), suffix)
		if v, err := cluster.ParseVersion(name); err == nil && v.Known() && v.AtLeast(3, 2) { // the table begins there
			found[v] = path
		}
	}
	return found
}

// sample is a value that the option takes.
func sample(o cluster.Option) string {
	switch o.Kind {
	case cluster.KindText:
		if o.Name == "auto-compaction-retention" {
			return "1" // hours, in 3.2
		}
		return "https://text:1" // cors takes URLs
	case cluster.KindSwitch:
		return "false"
	case cluster.KindNumber, cluster.KindMillis, cluster.KindBytes:
		return fmt.Sprint(max(o.Min, 4))
	case cluster.KindDuration:
		return "5s"
	case cluster.KindChoice:
		return o.Choices[len(o.Choices)-1]
	case cluster.KindGates:
		return "CompactHashCheck=true"
	}
	return "text"
}

var inHelp = regexp.MustCompile(`(?m)^(?:  |\t)--([a-z0-9-]+)`)

// TestOptionsAreEtcds: what the table says that a release has, it takes, with
// values of the kind that the table says; what it says that it has not, it
// refuses; and every flag in its help is in the table.
func TestOptionsAreEtcds(t *testing.T) {
	for v, etcd := range realReleases(t) {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			help, _ := say(t, etcd, "--help")
			flags := inHelp.FindAllStringSubmatch(help, -1)
			least := 60
			if !v.AtLeast(3, 4) {
				least = 50
			}
			if len(flags) < least {
				t.Fatalf("its help names %d flags:\n%s", len(flags), help)
			}
			for _, m := range flags {
				o, found := cluster.FindOption(m[1])
				if flag, known := o.Flag(v); !found || !known || o.Gate == "" && strings.TrimPrefix(flag, "experimental-") != o.Name {
					// The help of 3.7 names flags that it has not got any more.
					if said, _ := say(t, etcd, "--"+m[1]+"=1", "--version"); found && strings.Contains(said, "not defined") {
						continue
					}
					t.Errorf("--%s is in its help and not in the table", m[1])
				}
			}
			taken(t, v, etcd)
			typed(t, v, etcd)
			absent(t, v, etcd)
		})
	}
}

// taken: everything that may be set, at once.
func taken(t *testing.T, v cluster.Version, etcd string) {
	args := []string{}
	for _, o := range cluster.Options() {
		flag, known := o.Flag(v)
		if !known || !o.Settable() || flag == "feature-gates" && o.Gate != "" {
			continue
		}
		args = append(args, "--"+flag+"="+sample(o))
	}
	least := 25
	if !v.AtLeast(3, 4) {
		least = 17
	}
	if len(args) < least {
		t.Errorf("only %d options", len(args))
	}
	if said, ok := say(t, etcd, append(args, "--version")...); !ok || !strings.Contains(said, "etcd Version: "+v.String()) {
		t.Errorf("it does not take %q: %s", args, said)
	}
}

// typed: what is no text is refused by etcd, too, when it is of another kind.
func typed(t *testing.T, v cluster.Version, etcd string) {
	for _, o := range cluster.Options() {
		flag, known := o.Flag(v)
		// etcd looks at choices only when it starts.
		if !known || !o.Settable() || o.Gate != "" || o.Kind == cluster.KindText || o.Kind == cluster.KindChoice {
			continue
		}
		if said, _ := say(t, etcd, "--"+flag+"=no?", "--version"); !strings.Contains(said, "invalid") {
			t.Errorf("--%s takes a text where the table has %s: %s", flag, o.Kind, said)
		}
	}
}

// absent: names that the table gives to other lines only.
func absent(t *testing.T, v cluster.Version, etcd string) {
	for _, o := range cluster.Options() {
		for _, name := range []string{o.Name, "experimental-" + o.Name} {
			plain := name == o.Name
			if plain && o.Plain.Has(v) || !plain && o.Prefixed.Has(v) || o.Plain == (cluster.Minors{}) && plain || o.Prefixed == (cluster.Minors{}) && !plain {
				continue
			}
			if said, _ := say(t, etcd, "--"+name+"=1", "--version"); !strings.Contains(said, "not defined") {
				t.Errorf("it knows --%s, the table says that it does not: %s", name, said)
			}
		}
	}
}

// The gates of the table are those of the release.
func TestGatesAreEtcds(t *testing.T) {
	inHelp := regexp.MustCompile(`(?m)^    ([A-Za-z]+)=true\|false \(`)
	for v, etcd := range realReleases(t) {
		help, _ := say(t, etcd, "--help")
		var said, known []string
		for _, m := range inHelp.FindAllStringSubmatch(help, -1) {
			if g, found := cluster.FindGate(m[1]); found && g.Lines.Has(v) {
				known = append(known, m[1])
			}
			if !slices.Contains([]string{"AllAlpha", "AllBeta"}, m[1]) {
				said = append(said, m[1])
			}
		}
		if v.AtLeast(3, 6) == (len(said) == 0) || !slices.Equal(said, known) {
			t.Errorf("etcd %s has gates %q, the table knows of them %q", v, said, known)
		}
	}
}
