package cli

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// reach is the flags by which a command finds the daemons.
type reach struct {
	dataDir     string
	endpoints   []string
	clusterName string
	credentials string
	output      string
}

func (r *reach) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&r.dataDir, "data-dir", os.Getenv("ETCDADM_DATA_DIR"), "data directory of a daemon on this host, where the rest is read from ($ETCDADM_DATA_DIR)")
	f.StringSliceVar(&r.endpoints, "endpoint", nil, "host:port of daemons")
	alsoNamed(f, "endpoint", "endpoints")
	f.StringVar(&r.clusterName, "cluster-name", "", "name of the cluster, with --endpoint")
	f.StringVar(&r.credentials, "credentials", "", "directory with the operator's me.crt, me.key and ca.crt, with --endpoint; none: no TLS")
	r.outputFlag(c)
}

func (r *reach) outputFlag(c *cobra.Command) {
	c.PersistentFlags().StringVarP(&r.output, "output", "o", outputTable, "table, json or yaml")
}

// outputTable is the default of the commands that can write JSON and YAML, too.
const outputTable = "table"

// knownOutput refuses a form of output that there is not, before a command does anything.
func knownOutput(c *cobra.Command, _ []string) error {
	f := c.Flags().Lookup("output")
	if f == nil || f.DefValue != outputTable {
		return nil
	}
	switch output := f.Value.String(); output {
	case "table", "json", "yaml":
		return nil
	default:
		return usage("table, json or yaml", "--output=%s is unknown", output)
	}
}

func (r *reach) open() (*console.Console, error) {
	if len(r.endpoints) > 0 {
		if r.clusterName == "" {
			return nil, usage("a daemon answers only to its cluster's name", "--endpoint needs --cluster-name")
		}
		for _, e := range r.endpoints {
			if _, port, err := net.SplitHostPort(e); err != nil {
				return nil, usage("such as --endpoint=192.0.2.1:8000, by the daemons' --grpc-port", "--endpoint=%s is not host:port", e)
			} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return nil, usage("a port is a number from 1 to 65535", "--endpoint=%s has no port", e)
			}
		}
		c, err := console.Open(console.Access{Cluster: r.clusterName, Endpoints: r.endpoints, Credentials: r.credentials})
		if errors.Is(err, console.ErrOtherCluster) {
			return nil, usage("correct --cluster-name, or give the --credentials for that cluster", "%w", err)
		}
		return c, err
	}
	if r.dataDir == "" {
		dir, err := agentsDir()
		if err != nil {
			return nil, err
		}
		r.dataDir = dir
	}
	if r.dataDir == "" {
		return nil, usage("--data-dir names a daemon's data directory on this host, --endpoint a daemon anywhere", "say which cluster: --data-dir or --endpoint")
	}
	a, err := console.Here(r.dataDir, r.clusterName)
	switch {
	case errors.As(err, new(*console.StartError)), errors.Is(err, console.ErrOtherDisk):
		return nil, &Failure{Code: ExitNoCluster, Err: err, Advice: hintOf(err)}
	case errors.Is(err, fs.ErrPermission):
		return nil, &Failure{Code: ExitError, Err: err, Advice: "run it as the daemon's user, which is mostly root; or give --endpoint, --cluster-name and --credentials of your own"}
	case err != nil:
		return nil, &Failure{Code: ExitNoCluster, Err: err, Advice: "is it the --data-dir of a daemon that has run?"}
	}
	return console.Open(a)
}

// agentsDir is the data directory of the agent that init or join has set up here; empty:
// there is none.
func agentsDir() (string, error) {
	s, err := setup.ReadSettings(setup.Paths{})
	if err != nil && !errors.Is(err, setup.ErrNotSetUp) {
		return "", err
	}
	return s.Flag("data-dir"), nil
}

// refused is why the daemon of the data directory that was named did not start last; nil:
// it did, or none was named.
func (r *reach) refused() *console.Refusal {
	if r.dataDir == "" || len(r.endpoints) > 0 {
		return nil
	}
	return console.ReadRefusal(r.dataDir)
}

// noCluster is the failure of a question that no daemon answered.
func noCluster[T any](v T, err error) (T, error) {
	if !errors.Is(err, console.ErrNoDaemon) && !errors.Is(err, peer.ErrUnreachable) {
		return v, err
	}
	advice := "is the daemon running? etcdadm auto starts one on a host; the log of one that ended says why"
	switch said := adviceIn(err); {
	case said != "": // one runs, and says what is wrong
		advice = said
	case errors.Is(err, peer.ErrMute):
		advice = "is the daemon stopped (state T in ps), or its disk full? Its log says what it waits for"
	case errors.Is(err, peer.ErrNotPlain):
		advice = "a daemon with TLS wants --credentials, or --data-dir on a host; etcd's own ports are not the daemons'"
	}
	return v, &Failure{Code: ExitNoCluster, Err: err, Advice: advice}
}

// adviceIn is the first that a daemon's answer came with, of all that were asked.
func adviceIn(err error) string {
	if said, ok := err.(*peer.Error); ok && said.Advice != "" { //nolint:errorlint // each of the errors that are joined is looked at
		return said.Advice
	}
	var within []error
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		within = e.Unwrap()
	case interface{ Unwrap() error }:
		within = []error{e.Unwrap()}
	}
	for _, err := range within {
		if said := adviceIn(err); said != "" {
			return said
		}
	}
	return ""
}

// print writes a value as the output flag says; table is what people read.
func (r *reach) print(w io.Writer, v any, table func(io.Writer)) error {
	switch r.output {
	case "json":
		return duration.WriteJSON(w, v)
	case "yaml":
		data, err := duration.JSON(v)
		if err != nil {
			return err
		}
		if data, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	table(w)
	return nil
}
