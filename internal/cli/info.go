package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

func infoCommand() *cobra.Command {
	var r reach
	l := setup.Look{ShowURL: daemon.ShownURL}
	c := &cobra.Command{
		Use:   "info",
		Short: "Show this host in one screen: what is installed, its etcd, data, ports and certificates",
		Long: `info shows what this machine is as a host: its cluster, the agent and its unit, its
etcd, the data directory, the files that init or join made, the ports, and when each
certificate ends. What does not answer within 5 seconds is named below the rest.`,
		Example: `  etcdadm info
  etcdadm info -o json --data-dir /var/lib/etcdadm`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			l.Service, _ = setup.RunnerOf(l.Paths)
			i, err := l.Info(c.Context())
			if errors.Is(err, setup.ErrNotSetUp) {
				return &Failure{Code: ExitNoCluster, Err: err, Advice: hintOf(err) + "; --data-dir names that of a daemon which you start yourself"}
			}
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), i, func(w io.Writer) { printHost(w, i, time.Now()) })
		},
	}
	r.outputFlag(c)
	rootFlag(c, &l.Paths)
	c.Flags().StringVar(&l.DataDir, "data-dir", os.Getenv("ETCDADM_DATA_DIR"), "data directory of a daemon on this host; default: that of the agent which init or join set up ($ETCDADM_DATA_DIR)")
	return c
}

func printHost(w io.Writer, i setup.Info, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	row("cluster", "%s", orNone(i.Cluster))
	row("host", "%s, address %s", orNone(string(i.Host)), orNone(i.Address))
	if i.Store != "" {
		row("store", "%s", i.Store)
	}
	row("agent", "%s", agentWords(i.Agent))
	row("etcd", "%s", ofEtcd(i.Etcd))
	if len(i.Etcd.Clients) > 0 {
		row("clients", "%s", strings.Join(i.Etcd.Clients, ", "))
	}
	data := i.Data.Dir
	if i.Data.Free >= 0 {
		data += ", " + sizeWords(i.Data.Free) + " free"
	}
	if i.Data.SetAside > 0 {
		data += fmt.Sprintf(", %d set aside", i.Data.SetAside)
	}
	row("data", "%s", data)
	for _, f := range i.Installed {
		state := ""
		if f.State != "there" {
			state = " (" + f.State + ")"
		}
		row(f.What, "%s%s", f.Path, state)
	}
	for _, p := range i.Ports {
		row(p.What, "%s", p.Port)
	}
	for _, c := range i.Certificates {
		row("certificate "+c.Name, "%s", endsWords(c.NotAfter, now))
	}
	_ = t.Flush()
	for _, u := range i.Unknown {
		fmt.Fprintf(w, "! not known: %s\n", u)
	}
}

func agentWords(a setup.AgentInfo) string {
	words := "does not answer"
	if a.Answers {
		words = "answers, release " + a.Release
		switch {
		case a.Leads:
			words += ", leads the daemons"
		case a.Leader != "":
			words += ", led by host " + a.Leader
		}
	}
	if a.Unit != "" {
		words += "; " + a.Service + " is " + a.Unit
	}
	return words
}

func ofEtcd(e setup.EtcdInfo) string {
	words := e.State
	if e.Member != 0 {
		words += fmt.Sprintf(", member %s", e.Member)
	}
	if e.Role != "" {
		words += ", " + e.Role
	}
	if e.Version != "" {
		words += ", etcd " + e.Version
	}
	if e.DBSize > 0 {
		words += ", database " + sizeWords(e.DBSize)
	}
	if e.PID != 0 {
		words += fmt.Sprintf(", process %d", e.PID)
	}
	return words
}

// endsWords is when a certificate ends, and how long that is.
func endsWords(at, now time.Time) string {
	day := at.UTC().Format("2006-01-02 15:04 UTC")
	if left := at.Sub(now); left > 0 {
		return "ends " + day + ", in " + tookWords(left)
	}
	return "HAS ENDED " + day
}
