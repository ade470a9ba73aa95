package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/unit"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// former are the flags that etcdadm of kubernetes-sigs has for init and join, beside those that are called as ours
// (docs/operations/from-etcdadm.md). Help does not show them.
type former struct {
	bind, releaseURL, version string
	connect                   time.Duration
	priorities                map[string]string
	retry                     bool
	initSystem, repository    string
	refused                   map[string]*string
}

// formerRefused are the flags that can have no meaning here, and what is used in their place.
var formerRefused = map[string]struct{ why, instead string }{
	"install-dir":            {"etcd runs from the directory of its release, and nothing is copied out of it", "etcdadm download VERSION puts a release where it is found; an own directory of releases is named by ETCDADM_RELEASE_DIR in /etc/etcdadm/agent.env"},
	"skip-hash-check":        {"a snapshot whose hash is missing may be torn, and every one is checked", "take one that has its hash: etcdadm snapshot save FILE"},
	"server-cert-extra-sans": {"the agent issues etcd's certificates for the host's own names and addresses", "give clients the members' own addresses, as etcdctl.env has them"},
}

func (o *former) flags(c *cobra.Command, joins bool) {
	f := c.Flags()
	alsoNamed(f, "host-id", "name")
	hidden := func(name string) { f.Lookup(name).Hidden = true }
	f.StringVar(&o.bind, "bind-address", "", "address that etcd listens at and that others reach it by")
	f.StringVar(&o.releaseURL, "release-url", "", "mirror for the release of etcd, where this machine has none; see etcdadm download")
	f.DurationVar(&o.connect, "download-connect-timeout", 10*time.Second, "how long connecting to it may take")
	f.StringToStringVar(&o.priorities, "disk-priorities", nil, "directives for the unit: Nice, CPUWeight, IOWeight, IOSchedulingClass, IOSchedulingPriority")
	f.StringVar(&o.initSystem, "init-system", "", "what runs the agent: systemd, or kubelet, which is --static-pod")
	f.StringVar(&o.repository, "image-repository", "", "with --static-pod: the repository of the image etcdadm, in place of --image")
	alsoNamed(f, "manifests-dir", "kubelet-pod-manifest-path")
	for _, name := range []string{"init-system", "image-repository", "bind-address", "release-url", "download-connect-timeout", "disk-priorities"} {
		hidden(name)
	}
	if joins {
		f.StringVar(&o.version, "version", "", "release of etcd to have at hand before the host joins; the cluster says what runs")
		f.BoolVar(&o.retry, "retry", true, "as join does")
		hidden("version")
		hidden("retry")
	} else {
		alsoNamed(f, "etcd-version", "version")
		alsoNamed(f, "from-backup", "snapshot")
	}
	o.refused = map[string]*string{}
	for name, r := range formerRefused {
		o.refused[name] = f.String(name, "", "refused: "+r.why)
		f.Lookup(name).NoOptDefVal = "true"
		if name != "skip-hash-check" {
			f.Lookup(name).NoOptDefVal = ""
		}
		hidden(name)
	}
}

// check refuses what can have no meaning, and what is wrong with the rest.
func (o *former) check(c *cobra.Command) error {
	for name, r := range formerRefused {
		if c.Flags().Changed(name) && *o.refused[name] != "false" {
			return usage(r.instead, "--%s is not taken: %s", name, r.why)
		}
	}
	switch {
	case c.Flags().Changed("retry") && !o.retry:
		return usage("leave it out; --wait bounds how long join waits", "--retry=false is not taken: the agent goes on by itself until its member votes")
	case o.bind != "" && net.ParseIP(o.bind) == nil:
		return usage("such as --bind-address 192.0.2.1", "--bind-address %s is no IP address", o.bind)
	}
	if len(o.priorities) > 0 {
		if _, err := unit.Priorities(o.priorities); err != nil {
			return usage("such as --disk-priorities Nice=-10,IOSchedulingClass=best-effort", "--disk-priorities: %w", err)
		}
	}
	return someTime("--download-connect-timeout", o.connect)
}

// kubelet is what the flags for a static pod come to in ours.
func (o *former) kubelet(u *setUp) error {
	switch o.initSystem {
	case "", "systemd":
	case "kubelet":
		u.pod = true
	default:
		return usage("systemd or kubelet", "--init-system %s is neither", o.initSystem)
	}
	switch {
	case o.initSystem == "systemd" && u.pod:
		return usage("give one of them", "--init-system systemd and --static-pod were both given")
	case o.repository != "" && !u.pod:
		return usage("add --static-pod, or leave it out", "--image-repository is about a static pod")
	case o.repository != "" && u.how.Image != "":
		return usage("give one of them", "--image-repository and --image were both given")
	case o.repository != "":
		u.how.Image = strings.TrimSuffix(o.repository, "/") + "/" + path.Base(setup.DefaultImage(u.program.Build))
	}
	return nil
}

// bound are the settings that --bind-address stands for, and the address that others reach this host by.
func (o *former) bound(address string) (setup.Settings, string) {
	if o.bind == "" {
		return nil, address
	}
	if address == "" {
		address = o.bind
	}
	return setup.Settings{envfile.OfFlag("etcd-address"): o.bind}, address
}

// fetch has the release of etcd at hand, if a mirror or a version was named and this machine has none.
func (o *former) fetch(ctx context.Context, c *cobra.Command, u *setUp, v cluster.Version) error {
	if v.IsZero() || o.releaseURL == "" && o.version == "" && !c.Flags().Changed("download-connect-timeout") {
		return nil
	}
	if _, err := finderOf(u.program, nil).Find(ctx, v.String()); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	d := release.Downloader{URL: o.releaseURL, Cache: release.CacheDir, Client: release.NewClient(o.connect)}
	if _, err := downloadOne(ctx, &d, v, false, c.ErrOrStderr()); err != nil {
		return downloadFailure(err)
	}
	return nil
}

// ownAuthority copies the authority that lies in a directory of a person's, as users of etcdadm have it; nil: none was named.
func ownAuthority(dir string) (func(string) error, error) {
	if dir == "" {
		return nil, nil
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return nil, usage("leave it out, and the authorities are made in /etc/etcdadm/pki", "--certs-dir has no authority of yours: %w", err)
		}
	}
	return func(to string) error { return adoption.CopyAuthorities(dir, to) }, nil
}

// hashOf is the hash of the authority in a directory, for a join without --ca-hash.
func hashOf(dir string) (string, error) {
	a, err := pki.LoadAuthorityFiles("the authority", filepath.Join(dir, "ca.crt"), "", time.Now())
	if err != nil {
		return "", err
	}
	return a.Hash(), nil
}

// formerDownload takes the version as a flag, too.
func formerDownload(c *cobra.Command) {
	var version string
	c.Flags().StringVar(&version, "version", "", "as VERSION")
	c.Flags().Lookup("version").Hidden = true
	check, run := c.Args, c.RunE
	all := func(args []string) []string {
		if version != "" {
			return append(slices.Clone(args), version)
		}
		return args
	}
	c.Args = func(c *cobra.Command, args []string) error { return check(c, all(args)) }
	c.RunE = func(c *cobra.Command, args []string) error { return run(c, all(args)) }
}

// formerReset are the flags that etcdadm of kubernetes-sigs has for reset.
func formerReset(f *pflag.FlagSet, o *removal.Options) {
	f.BoolVar(&o.KeepMember, "skip-remove-member", false, "reset this machine alone, and leave its member in the cluster's list")
	f.Lookup("skip-remove-member").Hidden = true
}

// phases are what was a phase of init or join there, and what does that here.
var phases = map[string]map[string]string{
	"init": {
		"install":      "etcdadm download VERSION",
		"certificates": "etcdadm pki init --pki-dir /etc/etcdadm/pki",
		"snapshot":     "etcdadm init --from-backup FILE",
		"configure":    "etcdadm init --dry-run, which shows it; the settings are in /etc/etcdadm/agent.env",
		"start":        "systemctl start etcdadm",
		"etcdctl":      "etcdadm init again, which writes /etc/etcd/etcdctl.env",
	},
	"join": {
		"stop":         "systemctl stop etcdadm",
		"certificates": "etcdadm join, which is given the authorities",
		"membership":   "etcdadm member add HOST",
		"install":      "etcdadm download VERSION",
		"configure":    "etcdadm join … --dry-run, which shows it; the settings are in /etc/etcdadm/agent.env",
		"start":        "systemctl start etcdadm",
		"etcdctl":      "etcdadm join again, which writes /etc/etcd/etcdctl.env",
	},
}

// phaseCommand tells whoever has phases in a script what does that here: init and join are interrupted and go on, so that no
// part of them is a command of its own (docs/operations/from-etcdadm.md).
func phaseCommand(of string) *cobra.Command {
	return &cobra.Command{
		Use: "phase NAME", Hidden: true, Short: "What does here what was a phase there", DisableFlagParsing: true,
		Example: "  etcdadm " + of + " phase install",
		RunE: func(_ *cobra.Command, args []string) error {
			var names []string
			for name := range phases[of] {
				names = append(names, name)
			}
			slices.Sort(names)
			if len(args) > 0 {
				if instead, ok := phases[of][args[0]]; ok {
					return usage(instead, "etcdadm %s has no phases: run again after an interruption it goes on by itself", of)
				}
			}
			return usage(fmt.Sprintf("the phases were %s: each names what does that here", strings.Join(names, ", ")), "etcdadm %s has no phases", of)
		},
	}
}
