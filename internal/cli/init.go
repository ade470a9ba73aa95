package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/handover"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/token"
	"github.com/spf13/cobra"
)

// readSecret reads a small file that a person names.
func readSecret(path string) (string, error) {
	data, err := regular.Read(path, regular.SmallSize)
	return string(data), err
}

// setUp is what init and join have in common.
type setUp struct {
	reach
	paths   setup.Paths
	dryRun  bool
	address string
	hostID  string
	wait    time.Duration
	program daemon.Program
	pod     bool // the agent runs as a static pod
	how     setup.Pod
	in      takeIn
	former  former
}

func (u *setUp) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&u.hostID, "host-id", "", "ID of this host and name of its member; default: the machine's name")
	f.DurationVar(&u.wait, "wait", setup.DefaultWait, "how long to wait for etcd to serve")
	f.BoolVar(&u.dryRun, "dry-run", false, "print the checks and the steps, and change nothing")
	f.BoolVar(&u.pod, "static-pod", false, "run the agent as a static pod of the kubelet, and not as a systemd unit")
	f.StringVar(&u.how.Manifests, "manifests-dir", "", "with --static-pod or --adopt: the kubelet's directory of static pods (default "+setup.DefaultManifests+")")
	f.StringVar(&u.how.Image, "image", "", "with --static-pod: the image with etcdadm; default: that of the manifest which is there, else "+setup.DefaultImage("RELEASE"))
	u.outputFlag(c)
	rootFlag(c, &u.paths)
	u.in.flags(c)
}

// mistakes are what is wrong with the flags that both have.
func (u *setUp) mistakes(c *cobra.Command) error {
	for _, err := range []error{someTime("--wait", u.wait), u.in.check(c), u.former.check(c)} {
		if err != nil {
			return err
		}
	}
	if err := u.former.kubelet(u); err != nil {
		return err
	}
	switch {
	case u.pod && u.in.adopt:
		return usage("take it over without --static-pod, under systemd", "--adopt and --static-pod were both given")
	case u.pod && len(u.former.priorities) > 0:
		return usage("leave it out: the pod has the priority class system-node-critical", "--disk-priorities is about a systemd unit, and --static-pod was given")
	case !u.pod && u.how.Image != "":
		return usage("add --static-pod, or leave it out", "--image is about a static pod")
	case !u.pod && !u.in.adopt && u.how.Manifests != "":
		return usage("add --static-pod or --adopt, or leave it out", "--manifests-dir is about a static pod, of the agent or of an etcd that is taken over")
	}
	return nil
}

// machine is this one.
func (u *setUp) machine(c *cobra.Command) (*setup.Machine, error) {
	binary, err := os.Executable()
	if err == nil {
		binary, err = filepath.EvalSymlinks(binary)
	}
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	m := &setup.Machine{
		Paths: u.paths, Binary: binary, Build: u.program.Build, Environ: os.Environ(),
		Say: func(sentence string) { fmt.Fprintln(c.ErrOrStderr(), sentence) },
	}
	var pod *setup.Pod
	if u.pod {
		pod = &u.how
	}
	return m, setUpFailure(m.RunBy(pod))
}

// checked prints what was found where somebody has to know, and fails where a check refuses.
func (u *setUp) checked(c *cobra.Command, report setup.Report) error {
	refused := report.Err()
	warned := false
	for _, one := range report.Checks {
		warned = warned || one.Standing != setup.Good
	}
	switch {
	case u.dryRun:
		if err := u.print(c.OutOrStdout(), report, func(w io.Writer) {
			printChecks(w, report.Checks)
			fmt.Fprintln(w, "\nsteps:")
			for i, s := range report.Steps {
				fmt.Fprintf(w, "  %d. %s\n", i+1, s)
			}
		}); err != nil {
			return err
		}
	case warned:
		printChecks(c.ErrOrStderr(), report.Checks)
	}
	if refused != nil {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("%w; nothing was changed", refused), Advice: hintOf(refused)}
	}
	return nil
}

func printChecks(w io.Writer, checks []setup.Check) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\t\tFOUND")
	for _, c := range checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.Standing, c.Found)
		if c.Remedy != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", c.Remedy)
		}
	}
	t.Flush()
}

// setUpFailure gives an error of setup its exit code.
func setUpFailure(err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, setup.ErrWaiting):
		return &Failure{Code: ExitWaiting, Err: err, Advice: hintOf(err)}
	case errors.Is(err, setup.ErrOther), errors.Is(err, setup.ErrSetUp), errors.Is(err, handover.ErrNone), errors.Is(err, handover.ErrBusy), errors.Is(err, setup.ErrHalfReset), errors.Is(err, peer.ErrJoin), errors.Is(err, pki.ErrOtherAuthority), errors.Is(err, pki.ErrClock):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: hintOf(err)}
	case errors.Is(err, peer.ErrUnreachable), errors.Is(err, peer.ErrClearText):
		return &Failure{Code: ExitNoCluster, Err: err, Advice: hintOf(err)}
	}
	return err
}

func initCommand(program daemon.Program) *cobra.Command {
	u := setUp{program: program}
	o := setup.Init{}
	var version string
	c := &cobra.Command{
		Use:   "init [--store URL]",
		Short: "Make this machine the first host of a new cluster",
		Long: `init begins a cluster: it checks this machine, makes the three authorities, writes the
agent's settings to /etc/etcdadm/agent.env, installs and starts the systemd unit
etcdadm.service, waits until etcd serves on port 2379, and prints the command that joins
the other hosts. With --static-pod the kubelet of this machine runs the agent, by a
manifest in its directory. Without --store the hosts keep the cluster's record and its
backups themselves, each on its own disk. Interrupted, it is run again and goes on.
Nothing that exists is overwritten or deleted.

With --adopt an etcd that runs on this machine already, by a unit, as a static pod or by
hand, goes on as this host's member, with its data, IDs and certificates: run it on one
host, and the join that it prints, with --adopt, on one after the other of the rest.`,
		Example: `  etcdadm init
  etcdadm init --store s3://BUCKET/FOLDER
  etcdadm init --store file:///mnt/etcd-store --address 192.0.2.1 --dry-run
  etcdadm init --from-backup snapshot.db
  etcdadm init --manual
  etcdadm init --static-pod --image REGISTRY/etcdadm:1.2.3
  etcdadm init --adopt --dry-run`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := u.mistakes(c); err != nil {
				return err
			}
			if o.Empty && o.FromBackup != "" {
				return usage("one of them", "--empty and --from-backup were both given")
			}
			if name := slices.IndexFunc(ofNew, c.Flags().Changed); u.in.adopt && name >= 0 {
				return usage("leave it out: an etcd that is taken over keeps its release and its members", "--adopt and --%s were both given", ofNew[name])
			}
			if u.in.adopt && (o.Empty || o.FromBackup != "") {
				return usage("leave them out: an etcd that is taken over keeps its data", "--adopt and --empty or --from-backup were given")
			}
			if version == "" {
				version = program.Builtin.Version
			}
			var err error
			if o.Version, err = cluster.ParseVersion(version); err != nil {
				return usage("such as --etcd-version 3.6.16", "%w", err)
			}
			if err := (cluster.Spec{MemberCount: o.Members, EtcdVersion: o.Version}).Validate(); err != nil {
				return usage("such as --members 3", "%w", err)
			}
			o.HostID, o.Wait, o.DataDir, o.SetAside, o.Priorities = u.hostID, u.wait, u.in.dataDir, u.in.setAside, u.former.priorities
			o.More, o.Address = u.former.bound(u.address)
			if !u.in.adopt {
				if o.Authority, err = ownAuthority(u.in.certsDir); err != nil {
					return err
				}
			}
			return u.init(c, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Store, "store", "", "URL of a backup store that all hosts reach: a bucket or a shared directory; none: the hosts keep the record and the backups")
	f.StringVar(&o.FromBackup, "from-backup", "", "begin with the data of a snapshot in a FILE, or of the backup NAME in the store")
	withoutHash(c, &o.WithoutHash)
	f.BoolVar(&o.Empty, "empty", false, "begin empty after all, where an earlier init named a backup that could not be restored")
	f.BoolVar(&o.Manual, "manual", false, "begin with self-management off: etcdadm tells what it would do and begins nothing by itself (etcdadm auto-manage)")
	f.BoolVar(&o.CreateStore, "create-store", false, "make the directory of a file:// store that does not exist")
	f.StringVar(&o.Cluster, "cluster-name", "", "name of the cluster (default "+setup.DefaultCluster+")")
	f.StringVar(&u.address, "address", "", "how the other hosts reach this one; default: the address of the default route")
	f.IntVar(&o.Members, "members", 3, "how many members are wanted, once as many hosts have joined")
	f.StringVar(&version, "etcd-version", "", "etcd version; default: the built-in one")
	u.flags(c)
	u.former.flags(c, false)
	c.AddCommand(phaseCommand("init"))
	return c
}

func (u *setUp) init(c *cobra.Command, o setup.Init) error {
	m, err := u.machine(c)
	if err != nil {
		return err
	}
	_, own := kept.DataDir(o.Store) // the hosts keep the record
	if o.Existing, err = u.in.existing(c.Context(), u, m, false, o.Store != "" && !own); err != nil {
		return setUpFailure(err)
	}
	report, err := m.CheckInit(c.Context(), o)
	if err != nil {
		return setUpFailure(err)
	}
	if err := u.checked(c, report); err != nil || u.dryRun {
		return err
	}
	if err := u.in.agreed(c, report, o.Existing); err != nil {
		return err
	}
	if err := u.former.fetch(c.Context(), c, u, o.Version); err != nil {
		return err
	}
	o.Aside = report.Aside
	done, err := m.Init(c.Context(), o)
	if err != nil {
		return setUpFailure(err)
	}
	type printed struct {
		setup.Initialised
		Join string `json:"join"`
	}
	out := printed{done, joinLine(done.Endpoint, done.Token, done.CAHash)}
	if u.in.adopt && done.Members > 1 {
		out.Join += " --adopt"
	}
	return u.print(c.OutOrStdout(), out, func(w io.Writer) {
		verb := "serves"
		if done.Again {
			verb = "was begun before, and serves"
		}
		fmt.Fprintf(w, "cluster %s %s: etcd %s at %s\n", done.Cluster, verb, done.Version, done.Etcd)
		printTakenOver(w, done.TakenOver, done.Host)
		what := counted(done.Members, "member") + " wanted; to join a host, run there"
		if u.in.adopt {
			what = "on the other hosts that run a member, one after the other, run"
		}
		fmt.Fprintf(w, "%s until %s:\n\n  %s\n\n", what, untilWords(done.Expires, time.Now()), out.Join)
		switch {
		case o.Manual && !done.SelfManagementOff:
			fmt.Fprintln(w, "--manual changed nothing, because the cluster was begun before: etcdadm auto-manage off")
		case o.Manual:
			fmt.Fprintln(w, "self-management is off: etcdadm status has what etcdadm would do, and the command for it")
		}
		fmt.Fprintf(w, "whoever has this line and reaches this host gets the keys of the cluster (etcdadm token revoke %s)\n", tokenID(done.Token))
		fmt.Fprintf(w, "etcdctl: . %s\n", done.Etcdctl)
		fmt.Fprintln(w, externalEtcd)
	})
}

// ofNew are flags of init that are about a cluster that begins.
var ofNew = []string{"etcd-version", "version", "members"}

// externalEtcd is how kubeadm is given the etcd of this cluster.
const externalEtcd = "kubeadm: etcdadm certs issue --for kube-apiserver; etcdadm kubeadm print"

func tokenID(secret string) string {
	t, err := token.Parse(secret)
	if err != nil {
		return "ID"
	}
	return t.ID
}
