package cli

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/daemon"
)

const required = "--cluster-name=c --backup-store=file:///s --data-dir=/d"

func parse(t *testing.T, line string) (daemon.Config, []string, error) {
	t.Helper()
	t.Setenv("ETCDADM_RELEASES", "")
	return ParseManager(strings.Fields(required+" "+line), nil)
}

func TestManagerFlagsOfThePredecessor(t *testing.T) {
	c, warnings, err := parse(t, `--address=10.0.0.1 -backup-interval 5m --client-urls=https://__name__:4001 --containerized=true
		--dns-suffix=.internal.example --grpc-port=3996 --peer-urls=https://__name__:2380 --quarantine-client-urls=https://__name__:3994
		--v=6 --volume-name-tag=k8s.io/etcd/main --volume-tag=a=1 --volume-tag=b --etcd-insecure --insecure=false
		--etcd-manager-metrics-port 8080 --listen-metrics-urls=http://0.0.0.0:8081 --network-cidr=10.0.0.0/8 --pki-dir=/pki
		--logtostderr --alsologtostderr=true --vmodule=a=1 --discovery-poll-interval=30s --etcd-address=127.0.0.1`)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	if c.BackupInterval != 5*time.Minute || c.GRPCPort != 3996 || c.Root != "/rootfs" || !c.EtcdInsecure || c.Insecure ||
		c.MetricsPort != 8080 || !slices.Equal(c.VolumeTags, []string{"a=1", "b"}) || c.HostsFile != "/rootfs/etc/hosts" || c.LogLevel != 6 {
		t.Fatalf("%+v", c)
	}
	u := c.URLs("id")
	if u.Peer[0] != "http://id.internal.example:2380" || u.Client[0] != "http://id.internal.example:4001" {
		t.Fatalf("%+v", u)
	}
}

func TestManagerDefaults(t *testing.T) {
	c, _, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	u := c.URLs("id")
	if c.Address != "127.0.0.1" || c.GRPCPort != 8000 || c.EtcdAddress != "0.0.0.0" || c.PKIDir != "/etc/kubernetes/pki/etcd-manager" ||
		c.BackupInterval != 15*time.Minute || u.Peer[0] != "https://127.0.0.1:2380" || u.Client[0] != "https://127.0.0.1:4001" || u.Quarantine[0] != "https://127.0.0.1:8001" {
		t.Fatalf("%+v %+v", c, u)
	}
}

func TestUnknownFlagsOnlyWarn(t *testing.T) {
	c, warnings, err := parse(t, "--brand-new=1 --another value --grpc-port=9000 stray")
	if err != nil || c.GRPCPort != 9000 {
		t.Fatalf("%v %+v", err, c)
	}
	want := []string{"unknown flag --brand-new is ignored", "unknown flag --another is ignored", "the word stray is ignored: etcd-manager takes flags only"}
	if !slices.Equal(warnings, want) {
		t.Fatalf("%q", warnings)
	}
}

// What is nearly a flag of ours was meant to be it; what is far from all of them may
// be a flag of another release.
func TestSlipsInFlagsAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--backup-recipent=age1x":    "is --backup-recipient meant?",
		"--backup-recipients=age1x":  "is --backup-recipient meant?",
		"-backup_recipient age1x":    "is --backup-recipient meant?",
		"--Dead-after=5m":            "is --dead-after meant?",
		"--etcd-insecur":             "is --etcd-insecure meant?",
		"--new=1 --grcp-port=8000":   "is --grpc-port meant?",
		"--backup-keep-lsat=5 --x=1": "is --backup-keep-last meant?",
	} {
		_, _, err := parse(t, line)
		var said interface{ Hint() string }
		if err == nil || !errors.As(err, &said) || !strings.Contains(said.Hint(), want) {
			t.Errorf("%s: %v, want the hint %q", line, err, want)
		}
	}
	// Where the refusal is kept is read all the same.
	if c, _, err := parse(t, "--backup-recipent=age1x --data-dir=/elsewhere"); err == nil || c.DataDir != "/elsewhere" {
		t.Errorf("%v, %q", err, c.DataDir)
	}
	for _, line := range []string{"--x=1", "--ab", "--backup=1", "--backup-encryption=aes", "--clusters=3", "--volume-kind=x"} {
		if _, warnings, err := parse(t, line); err != nil || len(warnings) != 1 {
			t.Errorf("%s: %v, warnings %q", line, err, warnings)
		}
	}
}

func TestMistakesAreSentences(t *testing.T) {
	for line, want := range map[string]string{
		"--grpc-port=x":                              "invalid value",
		"--grpc-port=70000":                          "is no port",
		"--data-dir=relative":                        "is not an absolute path",
		"--cluster-name=":                            "--cluster-name is required",
		"--backup-store=":                            "--backup-store is required",
		"--peer-urls=127.0.0.1:2380":                 "is no URL of a listener",
		"--peer-urls=https://a":                      "has no port",
		"--client-urls=https://__address__:2380":     "both name",
		"--on-sigterm=explode":                       "want stop or leave",
		"--dead-after=-5m":                           "want a number",
		"--etcd-address=host":                        "is no IP address",
		"--backup-interval=soon":                     "invalid value",
		"--client-urls=ftp://__address__:1":          "is no URL of a listener",
		"--quarantine-client-urls=https://a:1/path/": "is no URL of a listener",
	} {
		_, _, err := parse(t, line)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", line, err, want)
		}
	}
}

func TestHelpIsHelp(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	if _, _, err := parseGoFlags(fs, []string{"-h"}, true); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
}

func FuzzManagerFlags(f *testing.F) {
	f.Add("--peer-urls=https://[::1]:2380 --x y -- z")
	f.Fuzz(func(t *testing.T, line string) {
		c, _, err := ParseManager(strings.Fields(line), nil)
		if err == nil {
			c.URLs("id")
			c.Endpoint()
		}
	})
}
