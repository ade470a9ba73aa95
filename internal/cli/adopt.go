package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"github.com/spf13/cobra"
)

// adoptFlags are what adopt was asked for.
type adoptFlags struct {
	endpoints   []string
	access      console.EtcdAccess
	store, name string
	control     string // the store of the record; empty: store has it
	yes         bool
	request     adoption.Request
	join        joinFlags
	unstarted   bool      // with --join: the daemon of this host has left nothing to go by
	manifests   string    // directory of the kubelet's static pods
	say         io.Writer // how far the backup of --join is, and what is waited for; nil: nobody hears
}

func adoptCommand(program daemon.Program) *cobra.Command {
	a := adoptFlags{join: joinFlags{program: program}}
	c := &cobra.Command{
		Use: "adopt", Short: "Take over an etcd run by another program, in place or by joining it",
		Long: `adopt makes this host's member of a running cluster ready for our daemon: one that
kubeadm runs as a static pod, one of etcdadm of kubernetes-sigs, a hand-made unit. The
cluster keeps its data, IDs, addresses and certificates. Host by host:

 1. without --yes it prints what it found, what it would do, and what is missing;
 2. with --yes, while etcd runs, it prepares everything except the data;
 3. stop etcd as it tells you, and run it again: it moves the data and prints the daemon's
    command line. Start that, wait until the member is healthy, and go to the next host.

adopt stops nothing and deletes nothing. Once our daemons run every member, the leading
one writes the cluster's record into the store.

With --join the members stay on their hosts: this host joins as a learner and is
promoted; once enough of your hosts have joined, the other members are removed one by
one. Run it on one host after the other; the last run removes them. If it was
interrupted, run the same command again, on any of the hosts. Without --yes it prints
what would happen. What the daemon of this host was started with needs not be said again.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			a.say = c.ErrOrStderr()
			if a.join.on {
				if err := a.known(c.Flags().Changed); err != nil {
					return err
				}
			}
			if a.join.on && a.join.whileInput {
				return a.whileInput(c.Context(), c.InOrStdin(), func(ctx context.Context) error { return a.run(ctx, c.OutOrStdout()) })
			}
			return a.run(c.Context(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&a.endpoints, "endpoints", nil, "client URLs of members of the cluster")
	alsoNamed(f, "endpoints", "endpoint")
	f.StringVar(&a.access.CA, "cacert", "", "certificate of the authority that etcd's is checked against")
	f.StringVar(&a.access.Cert, "cert", "", "client certificate to show to etcd")
	f.StringVar(&a.access.Key, "key", "", "its key")
	storeFlag(f, &a.store, "URL of the cluster's backup store, the same on every host ($ETCDADM_STORE)")
	controlFlag(f, &a.control)
	f.StringVar(&a.name, "cluster-name", "etcd", "name of the cluster among our daemons")
	f.StringVar(&a.request.From, "etcd-data-dir", "/var/lib/etcd", "etcd's data directory on this host")
	f.StringVar(&a.request.DataDir, "data-dir", "", "data directory of our daemon, on the same file system; else that of etcd")
	f.StringVar(&a.request.CertsDir, "certs-dir", "", "directory of ca.crt, server.{crt,key} and peer.{crt,key} (/etc/kubernetes/pki/etcd, /etc/etcd/pki); empty: no TLS")
	f.StringVar(&a.request.PKIDir, "pki-dir", "/etc/kubernetes/pki/etcd-manager", "directory of the daemons' authorities; made of etcd's where it has none")
	f.StringVar(&a.manifests, "manifests-dir", "/etc/kubernetes/manifests", "directory of the kubelet's static pods")
	f.BoolVar(&a.yes, "yes", false, "do it; without it, what would happen is shown")
	a.join.flags(c)
	return c
}

func (a *adoptFlags) run(ctx context.Context, out io.Writer) error {
	switch {
	case len(a.endpoints) == 0:
		return usage("--endpoints names client URLs of its members", "say which etcd")
	case a.store == "" && a.unstarted:
		return &Failure{
			Code: ExitWaiting, Err: fmt.Errorf("no daemon has started on %s yet, from which the store would be known, and no --store is named", a.request.DataDir),
			Advice: "run this again once the daemon runs, as that of a pod does within seconds; where it is to be started later, name its store by --store",
		}
	case a.store == "":
		return usage("--store names the URL that all daemons of the cluster will have, and where the backup before the first change goes", "say which store")
	case a.join.on:
		return a.runJoin(ctx, out)
	case a.control != "":
		return usage("leave it out", "--control-store goes with --join alone")
	case a.join.dryRun:
		a.yes = false
	}
	var err error
	r := &a.request
	if r.From, err = filepath.Abs(r.From); err != nil {
		return err
	}
	if r.DataDir, err = filepath.Abs(cmp.Or(r.DataDir, r.From)); err != nil {
		return err
	}
	r.Held = runtime.CheckUnlocked
	if err := a.ask(ctx); err != nil {
		return err
	}
	var folder *control.Folder
	store, err := openForWords(ctx, a.store, beginIf(a.yes))
	switch {
	case err == nil:
		folder = control.New(store, a.name)
	case a.yes:
		return err
	default: // a directory is made only when something is done
		fmt.Fprintf(out, "The store cannot be checked in a dry run: %v\n", err)
	}
	if r.Manifest, err = adoption.ManifestOf(a.manifests, r.From); err != nil {
		return err
	}
	r.Flags, r.FlagsUnknown = adoption.FlagsOf(r.Held(r.From))
	p, err := adoption.Look(ctx, *r, folder)
	if err != nil {
		return err
	}
	if missing := a.missingRelease(ctx, p); missing != "" {
		p.Missing = append(p.Missing, missing)
	}
	show(out, p)
	if len(p.Missing) > 0 {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was done: " + strings.Join(p.Missing, "; ")), Advice: "see above"}
	}
	if !a.yes {
		fmt.Fprintln(out, "\nNothing was changed. Add --yes to do it.")
		return nil
	}
	if err := p.Prepare(ctx, folder); err != nil {
		return untold(p.Moved(), err)
	}
	if p.Stop != nil {
		fmt.Fprintf(out, "\nReady but for the data, on which etcd runs (%v).\nStop it, so that it stays stopped, and run this again:\n", p.Stop)
		for _, line := range stopLines(p.Stop, r.Manifest) {
			fmt.Fprintln(out, "  "+line)
		}
		return nil
	}
	if r.Manifest != "" && !p.Moved() { // between two of its starts
		fmt.Fprintf(out, "\nReady but for the data, on which a static pod would start etcd again.\nMove its manifest first, and run this again:\n  %s\n", moveManifest(r.Manifest))
		return nil
	}
	if err := a.move(ctx, folder, p); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe data is in place. Start our daemon now, and keep it running; the member serves again then:\n  %s\n", a.daemonWords(p))
	fmt.Fprintf(out, "To go back before that: mv %s %s (the file there first moved away), and start etcd as before.\n", filepath.Join(r.DataDir, "data", p.Token, "member"), filepath.Join(r.From, "member"))
	return nil
}

// move moves the data. The member does not run to say its quota, so that the store tells
// it, and is asked before the data goes: when it is silent after that, nobody is told how
// the member serves again.
func (a *adoptFlags) move(ctx context.Context, f *control.Folder, p *adoption.Plan) error {
	quota, err := adoption.KeptQuota(ctx, f)
	if err != nil {
		return untold(p.Moved(), err)
	}
	a.request.Quota = quota
	return p.Move()
}

// untold says of an adoption that fails before it has said how the member serves again
// where the data is: an earlier run may have moved it, and the member is down then.
func untold(moved bool, err error) error {
	var silent *adoption.SilentError
	asked := errors.As(err, &silent)
	again := "once that is mended"
	if asked {
		again = "once the store answers"
	}
	switch {
	case moved:
		return &Failure{Code: ExitError, Err: err, Advice: "the data is in place, and the member is down until our daemon serves it: run the same again " + again + ", which prints the daemon's command line"}
	case asked:
		return &Failure{Code: ExitError, Err: err, Advice: "etcd's data is where it was, and what runs it may go on or start it again; run the same again " + again}
	}
	return err
}

// missingRelease: our daemon could not start the member once etcd is stopped. Empty: it
// can, as far as what runs is known, or the data is in its hands already.
func (a *adoptFlags) missingRelease(ctx context.Context, p *adoption.Plan) string {
	v := p.Version() // also where etcd was stopped, and an earlier run has asked it
	if v == "" || p.Moved() {
		return ""
	}
	_, err := finderOf(a.join.program, a.join.releaseDirs).Find(ctx, v)
	if err == nil {
		return ""
	}
	if none, ok := errors.AsType[*release.NotFoundError](err); ok {
		return fmt.Sprintf("the release that the member runs, with which our daemon starts it again: %v (%s)", none, none.Hint())
	}
	return fmt.Sprintf("the release that the member runs, with which our daemon starts it again: %v", err)
}

func show(out io.Writer, p *adoption.Plan) {
	for _, part := range []struct {
		title string
		lines []string
	}{{"There is:", p.Facts}, {"Not carried over:", p.Kept.LeftOut}, {"To be done:", p.Steps}, {"Missing:", p.Missing}} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintln(out, part.title)
		for _, l := range part.lines {
			fmt.Fprintln(out, "  "+l)
		}
	}
}

// daemonWords is daemonLine as a person pastes it into a shell.
func (a *adoptFlags) daemonWords(p *adoption.Plan) string {
	var words []string
	for _, word := range a.daemonLine(p) {
		words = append(words, cluster.ShellWord(word))
	}
	line := strings.Join(words, " ")
	if a.join.user != "" && a.join.password.wasPiped() {
		line += "   # FILE: a file with the password, which came by a pipe here"
	}
	return line
}

// daemonLine is the daemon's command line for this host, without what looks like a
// credential in the store's URL.
func (a *adoptFlags) daemonLine(p *adoption.Plan) []string {
	var line []string
	if a.request.Quota > 0 { // also where the daemon has not read the spec yet
		line = append(line, "ETCD_QUOTA_BACKEND_BYTES="+strconv.FormatInt(a.request.Quota, 10))
	}
	line = append(line, "etcd-manager", "--cluster-name="+a.name, "--backup-store="+daemon.ShownURL(a.store))
	if a.control != "" {
		line = append(line, "--control-store="+daemon.ShownURL(a.control))
	}
	line = append(line, "--data-dir="+a.request.DataDir,
		"--client-urls="+strings.Join(p.URLs.Client, ","), "--peer-urls="+strings.Join(p.URLs.Peer, ","),
		"--quarantine-client-urls="+strings.Join(p.URLs.Quarantine, ","))
	if len(p.URLs.Peer) > 0 {
		if u, err := url.Parse(p.URLs.Peer[0]); err == nil {
			line = append(line, "--address="+u.Hostname())
		}
	}
	if p.Kept.MetricsURLs != "" {
		line = append(line, "--listen-metrics-urls="+p.Kept.MetricsURLs)
	}
	if dirs := release.Dirs(os.Getenv(release.Env), a.join.releaseDirs); len(dirs) > 0 { // the daemon may have another environment
		line = append(line, "--release-dir="+strings.Join(dirs, ","))
	}
	if a.join.user != "" {
		file := a.join.passwordFile
		if a.join.password.wasPiped() { // gone with this command, and no daemon reads one
			file = "FILE"
		}
		line = append(line, "--etcd-user="+a.join.user, "--etcd-password-file="+file)
	}
	if len(p.URLs.Peer) == 0 || !strings.HasPrefix(p.URLs.Peer[0], "https:") {
		return append(line, "--insecure", "--etcd-insecure")
	}
	return append(line, "--pki-dir="+a.request.PKIDir)
}

// ask has any of the members that answers give the list, and this host's own its
// release. Where none answers, an earlier run has to have asked.
func (a *adoptFlags) ask(ctx context.Context) error {
	var secure *tls.Config
	if a.access.CA != "" {
		var err error
		if secure, err = a.access.CommandTLS(ctx); err != nil {
			return fmt.Errorf("read the certificates for etcd: %w", err)
		}
	}
	credential, err := a.credential(ctx)
	if err != nil {
		return err
	}
	config := etcd.Config{TLS: secure, Credential: credential}
	var failed []error
	for _, endpoint := range a.endpoints {
		view, err := listOf(ctx, endpoint, config)
		if err != nil {
			failed = append(failed, err)
			continue // another may answer; that none did shows in the plan
		}
		a.request.Members = &view
		break
	}
	if err := unknown(errors.Join(failed...)); a.request.Members == nil && (errors.Is(err, adoption.ErrCredential) || errors.Is(err, adoption.ErrRole)) {
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "nothing was changed"}
	}
	if a.request.Members == nil {
		return nil
	}
	id, err := a.ownMember()
	if err != nil {
		return nil //nolint:nilerr // Look says what is wrong with the data
	}
	for _, m := range a.request.Members.Members {
		if m.ID == id {
			a.runs(ctx, m, config)
		}
	}
	return nil
}

func (a *adoptFlags) ownMember() (cluster.MemberID, error) { return adoption.OwnMember(a.request) }

func listOf(ctx context.Context, endpoint string, config etcd.Config) (cluster.MemberView, error) {
	config.Endpoints = []string{endpoint}
	c, err := etcd.New(config)
	if err != nil {
		return cluster.MemberView{}, err
	}
	defer c.Close()
	return c.View(ctx, true)
}

// runs asks for the release that a member runs, and for the quota of its database.
// What it does not answer stays zero.
func (a *adoptFlags) runs(ctx context.Context, m cluster.Member, config etcd.Config) {
	st, at, err := adoption.AskMember(m, a.endpoints, func(endpoint string) (cluster.MemberStatus, error) {
		config.Endpoints = []string{endpoint}
		c, err := etcd.New(config)
		if err != nil {
			return cluster.MemberStatus{}, err
		}
		defer c.Close()
		return c.Status(ctx)
	})
	if err != nil {
		a.request.Unanswered = err
		return
	}
	if config.Endpoints = []string{at}; !adoption.TellsQuota(st.Version) {
		if st.Quota, err = etcd.MeasuredQuota(ctx, config); err != nil {
			a.request.QuotaUnknown = adoption.UnknownQuota(m.Name, err)
		}
	}
	a.request.Version, a.request.Quota = st.Version, adoption.QuotaOf(st)
}
