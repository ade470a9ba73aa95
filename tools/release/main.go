// Command release makes what a release consists of, from the checkout that it lies in:
//
//	go -C tools/release run . -o DIR [-version V] [-arch amd64,arm64] [-etcd DIR]
//
// DIR, which is taken from the root of the checkout where it is relative, then has
//
//	bin/linux-ARCH/        the programs, static
//	*.deb, *.rpm           packages of etcdadm and of etcd-manager with its family
//	*-oci.tar              images of both and of the operator, each for every architecture, as archives of an OCI layout
//	etcdadm-V.cdx.json     the bill of materials (CycloneDX)
//	SHA256SUMS             of all of these; it is written last, so without it the rest is not complete
//
// The same commit, the same Go and the same arguments give the same bytes. Times in it are $SOURCE_DATE_EPOCH, or when
// the commit was made. Nothing is fetched but Go modules, and nothing is signed or uploaded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// release is one, while it is made.
type release struct {
	root    string // of the checkout
	out     string
	work    string // what nobody needs afterwards
	version string // without a v
	commit  string
	time    time.Time
	arches  []string
	etcd    string // directory with releases of etcd for the image; empty: none
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := flag.String("o", "", "`directory` to make, or an empty one; a relative one is below the root of the checkout")
	version := flag.String("version", "", "the release's `version`, such as 1.2.3 (default: the commit's tag, or 0.0.0-dev.N of the Nth commit)")
	arches := flag.String("arch", "amd64,arm64", "`architectures`, comma list")
	etcd := flag.String("etcd", "", "`directory` with etcd-vX.Y.Z-linux-ARCH/, as etcd's archives unpack: they go into the images of etcd-manager and of etcdadm")
	flag.Parse()
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("no arguments are taken, and %q was given", flag.Args())
	}
	if err == nil {
		err = run(ctx, root, *out, *version, *arches, *etcd)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the release of the checkout at root.
func run(ctx context.Context, root, out, version, arches, etcd string) error {
	r := &release{root: root, version: version, arches: strings.Split(arches, ","), etcd: etcd}
	var err error
	if r.out, err = makeEmpty(root, out); err != nil {
		return err
	}
	if etcd != "" && !filepath.IsAbs(etcd) {
		r.etcd = filepath.Join(root, etcd)
	}
	if err := r.identify(ctx); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "etcdadm-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.make(ctx); err != nil {
		return err
	}
	fmt.Println(r.out)
	return nil
}

// make takes the steps of a release.
func (r *release) make(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"build the programs", r.build},
		{"write completions and man pages", r.writePages},
		{"pack deb and rpm", r.pack},
		{"lay out the images", r.layImages},
		{"write the bill of materials", r.writeSBOM},
		{"add up the files", r.writeSums},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		say("%s: %.1f s", step.what, time.Since(began).Seconds())
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...) }

// makeEmpty makes the directory that the release goes to. What somebody has put there is not touched.
func makeEmpty(root, dir string) (string, error) {
	if dir == "" {
		return "", errors.New("say where to: -o DIR")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	switch found, err := os.ReadDir(dir); {
	case err == nil && len(found) > 0:
		return "", fmt.Errorf("%s is not empty: give another directory, or move it away", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// versions are those that deb, rpm, images and files can all be named after.
var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z][0-9A-Za-z.]*)?$`)

// identify finds out what it is a release of.
func (r *release) identify(ctx context.Context) error {
	for _, a := range r.arches {
		if !slices.Contains([]string{"amd64", "arm64"}, a) {
			return fmt.Errorf("-arch: %q is not one of amd64 and arm64", a)
		}
	}
	slices.Sort(r.arches)
	r.arches = slices.Compact(r.arches)
	for _, a := range r.arches { // before anything is built
		if _, err := etcdReleases(r.etcd, a); err != nil {
			return fmt.Errorf("-etcd: %w", err)
		}
	}
	var err error
	if r.commit, err = git(ctx, r.root, "rev-parse", "HEAD"); err != nil {
		return err
	}
	if r.version == "" {
		if r.version, err = versionOf(ctx, r.root); err != nil {
			return err
		}
	}
	r.version = strings.TrimPrefix(r.version, "v")
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version: %q is not like 1.2.3 or 1.2.3-rc.1", r.version)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = git(ctx, r.root, "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("$SOURCE_DATE_EPOCH: %w", err)
	}
	r.time = time.Unix(n, 0).UTC()
	return nil
}

// versionOf is the version of the commit that is checked out.
func versionOf(ctx context.Context, root string) (string, error) {
	if tag, err := git(ctx, root, "describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
		return tag, nil
	}
	count, err := git(ctx, root, "rev-list", "--count", "HEAD")
	return "0.0.0-dev." + count, err
}

// gitWithin is for a question that git answers from its files.
const gitWithin = 30 * time.Second

func git(ctx context.Context, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	return output(cmd)
}

// output is what a command prints, without the last line's end. Its error has the words of the command.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err != nil {
		said := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = ": " + strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("%s: %w%s", strings.Join(cmd.Args, " "), err, said)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
