package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/release"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// downloadTimeout bounds a whole download command.
const downloadTimeout = 30 * time.Minute

func downloadCommand() *cobra.Command {
	var d release.Downloader
	var connect, timeout time.Duration
	var dryRun bool
	var r reach
	c := &cobra.Command{
		Use:   "download VERSION…",
		Short: "Fetch releases of etcd into this machine's cache",
		Long: `download fetches etcd releases to where this machine's daemon finds them. VERSION is
a release (3.6.16) or a line (3.6): its newest patch known to this etcdadm.

The archive is checked against the release's SHA256SUMS and test-run before it is
installed; an interrupted download resumes. SHA256SUMS must come over TLS unless
--sha256 gives the sum. Each program is checked against its sum again before use.

--release-url names a mirror: a directory with v<version>/<file> in it, or a
template with {version}, {os}, {arch} and {file}. --from takes the archives and
SHA256SUMS from a directory instead, without any network.`,
		Args: words(cobra.MinimumNArgs(1)),
		PreRunE: func(*cobra.Command, []string) error {
			if err := someTime("--timeout", timeout); err != nil {
				return err
			}
			return someTime("--download-connect-timeout", connect)
		},
		RunE: func(c *cobra.Command, args []string) error {
			versions, err := toDownload(args)
			switch {
			case err != nil:
				return err
			case d.SHA256 != "" && len(versions) > 1:
				return usage("name one version", "--sha256 is the sum of one archive")
			case d.Dir != "" && d.URL+d.SumsURL != "":
				return usage("leave one of them out", "--from takes the place of every URL")
			case d.SHA256 != "" && d.SumsURL != "":
				return usage("leave one of them out", "--sha256 takes the place of SHA256SUMS")
			}
			d.Client = release.NewClient(connect)
			d.Waits = func(v string) {
				fmt.Fprintf(c.ErrOrStderr(), "another process downloads etcd %s into %s: waiting for it, %s in all at most\n", v, d.Cache, timeout)
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			var done []release.Fetched
			for _, v := range versions {
				f, err := downloadOne(ctx, &d, v, dryRun, c.ErrOrStderr())
				if err != nil {
					return downloadFailure(err)
				}
				done = append(done, f)
			}
			return r.print(c.OutOrStdout(), done, func(w io.Writer) { printFetched(w, done, dryRun) })
		},
	}
	f := c.Flags()
	f.StringVar(&d.URL, "release-url", "", "a mirror; the default is "+release.OfficialURL)
	f.StringVar(&d.SumsURL, "sums-url", "", "where SHA256SUMS comes from; the default is --release-url")
	f.StringVar(&d.Dir, "from", "", "directory with archives and SHA256SUMS, in place of any URL")
	f.StringVar(&d.SHA256, "sha256", "", "SHA-256 of the archive; SHA256SUMS is not asked for then")
	f.StringVar(&d.Cache, "cache-dir", release.CacheDir, "where releases are kept")
	f.DurationVar(&connect, "download-connect-timeout", 10*time.Second, "how long connecting may take")
	f.DurationVar(&timeout, "timeout", downloadTimeout, "how long all of it may take")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be downloaded, and download nothing")
	r.outputFlag(c)
	formerDownload(c)
	return c
}

// downloadFailure gives what was refused its exit code; the rest has its own
// words.
func downloadFailure(err error) error {
	var failed *release.DownloadError
	if errors.Is(err, release.ErrTrust) && errors.As(err, &failed) {
		return &Failure{Code: ExitUnsafe, Err: err, Advice: failed.Hint()}
	}
	return err
}

// toDownload reads versions and lines, each once.
func toDownload(args []string) ([]cluster.Version, error) {
	var versions []cluster.Version
	for _, arg := range args {
		v, err := oneToDownload(arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

func oneToDownload(arg string) (cluster.Version, error) {
	if l, ok := cluster.ParseLine(arg); ok {
		return l.Release(l.Newest), nil
	}
	v, err := cluster.ParseVersion(arg)
	if err != nil {
		return v, usage("such as etcdadm download 3.6.16", "%w", err)
	}
	if err := v.Runnable(); err != nil {
		return v, &Failure{Code: ExitUnsafe, Err: err, Advice: "etcdadm versions --all lists the lines that are known"}
	}
	return v, nil
}

func downloadOne(ctx context.Context, d *release.Downloader, v cluster.Version, dryRun bool, progress io.Writer) (release.Fetched, error) {
	if dryRun {
		return d.Plan(v.String()), nil
	}
	bar := newBar(progress)
	d.Progress = bar.show
	d.Again = func(version string, tries int, pause time.Duration, why error) {
		bar.end()
		if tries == 0 {
			fmt.Fprintf(progress, "etcd %s: %v; it is asked for the rest in %s\n", version, why, pause)
			return
		}
		fmt.Fprintf(progress, "etcd %s: %v; it is asked again in %s, %d of %d times\n", version, why, pause, tries+1, release.Tries)
	}
	defer bar.end()
	return d.Get(ctx, v.String())
}

func printFetched(w io.Writer, all []release.Fetched, dryRun bool) {
	for _, f := range all {
		switch {
		case f.Already:
			fmt.Fprintf(w, "etcd %s is in %s already\n", f.Version, f.Dir)
		case dryRun:
			fmt.Fprintf(w, "would fetch etcd %s from %s into %s\n", f.Version, f.From, f.Dir)
		default:
			fmt.Fprintf(w, "etcd %s is in %s; the SHA-256 of its archive is %s\n", f.Version, f.Dir, f.SHA256)
		}
	}
}

// bar shows progress: on a terminal a line that changes, four times a second;
// elsewhere a line each tenth.
type bar struct {
	w        io.Writer
	terminal bool
	last     time.Time
	tenth    int64
	open     bool // a line without its end
}

func newBar(w io.Writer) *bar {
	f, is := w.(*os.File)
	return &bar{w: w, terminal: is && term.IsTerminal(int(f.Fd()))}
}

func (b *bar) show(p release.Progress) {
	whole := p.Total > 0
	of := ""
	if whole {
		of = " of " + sizeWords(p.Total)
	}
	switch {
	case b.terminal && time.Since(b.last) > 250*time.Millisecond:
		b.last, b.open = time.Now(), true
		fmt.Fprintf(b.w, "\retcd %s: %s%s   ", p.Version, sizeWords(p.Done), of)
	case !b.terminal && whole && p.Done*10/p.Total > b.tenth:
		b.tenth = p.Done * 10 / p.Total
		fmt.Fprintf(b.w, "etcd %s: %s%s\n", p.Version, sizeWords(p.Done), of)
	}
}

func (b *bar) end() {
	if b.open {
		b.open = false
		fmt.Fprintln(b.w)
	}
}

// listedVersion is a release as versions prints it for programs.
type listedVersion struct {
	Version  string   `json:"version"`            // what the binary says
	Name     string   `json:"name,omitempty"`     // by which it is found, when that is another one
	Dir      string   `json:"dir,omitempty"`      // empty for the built-in one
	Builtin  bool     `json:"builtin,omitempty"`  //
	Refused  string   `json:"refused,omitempty"`  // why no member is started with it
	Warnings []string `json:"warnings,omitempty"` //
	Missing  bool     `json:"missing,omitempty"`  // not on this machine
}

type listedVersions struct {
	// Host is whose daemon finds them; empty: this shell does, and a daemon may find others.
	Host     cluster.HostID  `json:"host,omitempty"`
	Versions []listedVersion `json:"versions"`
	Passed   []string        `json:"passed,omitempty"` // places that hold something that will not do, and why
}

func versionsCommand(program daemon.Program) *cobra.Command {
	var dirs []string
	var cache string
	var all bool
	var r reach
	c := &cobra.Command{
		Use:   "versions",
		Short: "List the releases of etcd on this machine",
		Long: `versions lists the releases of etcd that the daemon of a host finds, oldest first, and
what speaks against them: the one of --data-dir, or the first of --endpoint that
answers. Without either, with --release-dir or --cache-dir, or where no daemon
answers, it lists what this shell finds, and says so: a daemon may have other
directories. With --all also the newest patch that this etcdadm knows of each
release line.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			told, err := r.releases(c)
			if err != nil {
				return err
			}
			if told == nil {
				ctx, cancel := context.WithTimeout(c.Context(), releasesTimeout)
				defer cancel()
				finder := finderOf(program, dirs)
				finder.Caches = []string{cache}
				found, err := daemon.ReleasesBy(ctx, finder)
				if err != nil {
					return err
				}
				told = &found
			}
			list := listVersions(*told, all)
			return r.print(c.OutOrStdout(), list, func(w io.Writer) { printVersions(w, list) })
		},
	}
	c.Flags().StringSliceVar(&dirs, "release-dir", nil, "directories with further etcd releases ($ETCDADM_RELEASES)")
	c.Flags().StringVar(&cache, "cache-dir", release.CacheDir, "where downloaded releases are kept")
	c.Flags().BoolVar(&all, "all", false, "also the newest patch of each line that is not here")
	r.flags(c)
	return c
}

// releases asks a daemon; nil: none is to be asked, or none answers, which is said.
func (r *reach) releases(c *cobra.Command) (*console.Releases, error) {
	const shells = "this is what this shell finds, and a daemon may find others"
	switch {
	case c.Flags().Changed("release-dir") || c.Flags().Changed("cache-dir"):
		return nil, nil
	case r.dataDir == "" && len(r.endpoints) == 0:
		fmt.Fprintln(c.ErrOrStderr(), shells+": --data-dir or --endpoint asks it")
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), releasesTimeout)
	defer cancel()
	told, err := r.askReleases(ctx)
	for err == nil && told.Looking && ctx.Err() == nil { // its answer took its time, so that this is no haste
		told, err = r.askReleases(ctx)
	}
	switch failure := (*Failure)(nil); {
	case err == nil && told.Unknown == "":
		return &told, nil
	case err == nil:
		err = fmt.Errorf("host %s cannot tell: %s", told.Host, told.Unknown)
	case c.Context().Err() != nil, errors.As(err, &failure) && failure.Code == ExitUsage:
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "! %v\n  %s\n", err, shells)
	return nil, nil
}

func (r *reach) askReleases(ctx context.Context) (console.Releases, error) {
	c, err := r.open()
	if err != nil {
		return console.Releases{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.Releases(ctx)
}

// releasesTimeout bounds a command's look for releases. One program is given half of what
// is left, and internal/release.answerDeadline at most, so that on a busy machine an
// etcd that takes ten seconds to tell its version is still found.
const releasesTimeout = time.Minute

func listVersions(here console.Releases, all bool) listedVersions {
	out := listedVersions{Host: here.Host, Versions: []listedVersion{}, Passed: here.Passed}
	for _, r := range here.Found {
		l := judged(r.Version)
		l.Dir, l.Builtin = r.Dir, r.Builtin
		if r.Asked != r.Version {
			l.Name = r.Asked
		}
		out.Versions = append(out.Versions, l)
	}
	for _, line := range cluster.Lines() {
		newest := line.Release(line.Newest).String()
		if all && !slices.ContainsFunc(here.Found, func(r console.Release) bool { return r.Version == newest }) {
			l := judged(newest)
			l.Missing = true
			out.Versions = append(out.Versions, l)
		}
	}
	return out
}

// judged is what is known of a version that a binary told.
func judged(version string) listedVersion {
	l := listedVersion{Version: version}
	v, err := cluster.ParseVersion(version)
	if err == nil {
		err = v.Runnable()
	}
	if err != nil {
		l.Refused = err.Error()
	}
	l.Warnings = v.Warnings()
	return l
}

func printVersions(w io.Writer, list listedVersions) {
	if list.Host != "" {
		fmt.Fprintf(w, "the daemon of host %s finds:\n", list.Host)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tWHERE\tNOTE")
	for _, l := range list.Versions {
		where := l.Dir
		switch {
		case l.Missing:
			where = "not here"
		case l.Builtin:
			where = "built in"
		}
		notes := slices.Clone(l.Warnings)
		if l.Refused != "" {
			notes = append([]string{l.Refused}, notes...)
		}
		if l.Name != "" {
			notes = append([]string{"under the name " + l.Name}, notes...)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Version, filepath.Clean(where), strings.Join(notes, "; "))
	}
	_ = t.Flush()
	for _, p := range list.Passed {
		fmt.Fprintf(w, "will not do: %s\n", p)
	}
}
