package cli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/setup"
)

// values are good ones for flags that do not take any text.
var values = map[string]string{
	"address": "192.0.2.7", "etcd-address": "192.0.2.7", "on-sigterm": "leave", "key-algorithm": "rsa", "log-format": "json",
	"client-urls": "https://__address__:1", "peer-urls": "https://__address__:2", "quarantine-client-urls": "https://__address__:3",
	"backup-compression": "zstd", "discovery": "192.0.2.8:8000", "data-dir": "/d", "host-id": "h",
}

// valueOf is a value for a flag that is not its default.
func valueOf(f *flag.Flag) string {
	if v := values[f.Name]; v != "" {
		return v
	}
	if isBool(f) {
		if f.Name == "auto-compact-on-nospace" {
			return "false"
		}
		return "true"
	}
	for _, v := range []string{"17", "17m"} {
		var c daemon.Config
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		ManagerFlags(fs, &c)
		if fs.Set(f.Name, v) == nil {
			return v
		}
	}
	return "text"
}

// Every flag can be given by its variable, which does what the flag does, and a flag goes before it.
func TestEveryFlagHasAVariable(t *testing.T) {
	fs, c := flag.NewFlagSet("x", flag.ContinueOnError), daemon.Default()
	ManagerFlags(fs, &c)
	count := 0
	fs.VisitAll(func(f *flag.Flag) {
		if without(f) {
			return
		}
		count++
		value := valueOf(f)
		byFlag, _, ferr := ParseManager([]string{"--" + f.Name + "=" + value}, nil)
		byVariable, warnings, verr := ParseManager(nil, []string{envfile.OfFlag(f.Name) + "=" + value})
		if shown(byFlag) != shown(byVariable) || (ferr == nil) != (verr == nil) || len(warnings) > 0 {
			t.Errorf("--%s=%s and $%s differ:\n%s %v\n%s %v %q", f.Name, value, envfile.OfFlag(f.Name), shown(byFlag), ferr, shown(byVariable), verr, warnings)
		}
		if shown(byVariable) == shown(daemon.Default()) && value != f.DefValue {
			t.Errorf("$%s=%s changes nothing", envfile.OfFlag(f.Name), value)
		}
		both, _, _ := ParseManager([]string{"--" + f.Name + "=" + value}, []string{envfile.OfFlag(f.Name) + "=0"})
		if shown(both) != shown(byFlag) {
			t.Errorf("$%s goes before --%s:\n%s\n%s", envfile.OfFlag(f.Name), f.Name, shown(both), shown(byFlag))
		}
	})
	if count < 35 {
		t.Errorf("only %d flags were looked at", count)
	}
}

// A host that joins has of each flag what the others have, or its own: none is forgotten.
func TestEveryFlagIsSharedOrOwn(t *testing.T) {
	fs, c := flag.NewFlagSet("x", flag.ContinueOnError), daemon.Default()
	ManagerFlags(fs, &c)
	fs.VisitAll(func(f *flag.Flag) {
		if without(f) {
			return
		}
		value := valueOf(f)
		given, _, _ := ParseManager([]string{"--" + f.Name + "=" + value}, nil)
		shared, is := given.Shared()[f.Name]
		if own := slices.Contains(setup.OwnFlags, f.Name); own == is {
			t.Errorf("--%s is own: %t, and shared: %t", f.Name, own, is)
		}
		if !is {
			return
		}
		if f.Name == "etcd-address" && shared == "__address__" {
			shared = value
		}
		again, _, err := ParseManager(nil, []string{envfile.OfFlag(f.Name) + "=" + shared})
		if shown(again) != shown(given) {
			t.Errorf("--%s=%s becomes %s for a joiner:\n%s\n%s %v", f.Name, value, shared, shown(given), shown(again), err)
		}
	})
	if got := daemon.Default(); len(got.Shared()) != 2 { // the cluster and the store, which have no default
		t.Errorf("%v", got.Shared())
	}
	c.Address, c.EtcdAddress, c.ClientURLs = "192.0.2.1", "192.0.2.1", []string{"https://192.0.2.1:2379"}
	if got := c.Shared(); got["etcd-address"] != "__address__" || got["client-urls"] != "https://__address__:2379" {
		t.Errorf("%v", got)
	}
}

func shown(c daemon.Config) string {
	return fmt.Sprintf("%+v", c)
}

func TestVariablesThatAreNone(t *testing.T) {
	_, warnings, err := ParseManager(strings.Fields(required), []string{
		"ETCDADM_BACKUP_INTERVALL=5m", "ETCDADM_RELEASES=/r", "ETCDADM_TOKEN=abc", "ETCDADM_EMPTY=", "HOME=/root", "ETCD_NAME=x",
		"ETCDADM_LOGTOSTDERR=true", "ETCDADM_FROM_THE_FUTURE=1",
	})
	want := []string{
		"the variable ETCDADM_BACKUP_INTERVALL is no flag's and is ignored; is ETCDADM_BACKUP_INTERVAL meant?",
		"the variable ETCDADM_FROM_THE_FUTURE is no flag's and is ignored",
		"the variable ETCDADM_LOGTOSTDERR is no flag's and is ignored",
	}
	if err != nil || !slices.Equal(warnings, want) {
		t.Errorf("%v, %q", err, warnings)
	}
	c, _, err := ParseManager([]string{"--cluster-name=c"}, []string{"ETCDADM_GRPC_PORT=x", "ETCDADM_DATA_DIR=/d"})
	if c.DataDir != "/d" {
		t.Errorf("where the refusal is kept is not read: %q", c.DataDir)
	}
	var f *Failure
	if !errors.As(err, &f) || f.Code != ExitUsage || !strings.Contains(err.Error(), "$ETCDADM_GRPC_PORT") {
		t.Errorf("%v", err)
	}
	// etcd-manager goes by its flags, as the predecessor does.
	if c, _, err := ParseManager(strings.Fields(required), nil); err != nil || c.GRPCPort != 8000 {
		t.Errorf("%v, %d", err, c.GRPCPort)
	}
}

// The store may be given by its variable, as in a unit's environment.
func TestAutoTakesItsStoreFromTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{"ETCDADM_BACKUP_STORE": "file:///nowhere", "ETCDADM_DATA_DIR": "relative", "ETCDADM_CLUSTER_NAME": "c"} {
		t.Setenv(name, value)
	}
	if code, _, errs := runEtcdadm("auto"); code != ExitUsage || !strings.Contains(errs, "--data-dir=relative is not an absolute path") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	t.Setenv("ETCDADM_BACKUP_STORE", "")
	if code, _, errs := runEtcdadm("auto"); code != ExitUsage || !strings.Contains(errs, "name the STORE first") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A Service named etcdadm-grpc makes such variables in every container of its namespace. They are no settings.
func TestServiceLinksAreNoFlags(t *testing.T) {
	links := []string{
		"ETCDADM_GRPC_PORT=tcp://10.0.0.1:8000", "ETCDADM_GRPC_PORT_8000_TCP=tcp://10.0.0.1:8000", "ETCDADM_GRPC_PORT_8000_TCP_PORT=8000",
		"ETCDADM_GRPC_SERVICE_HOST=10.0.0.1", "ETCDADM_GRPC_SERVICE_PORT=8000", "ETCDADM_GRPC_SERVICE_PORT_GRPC=8000",
	}
	required := []string{"--cluster-name=c", "--backup-store=file:///b", "--data-dir=/d"}
	c, warnings, err := ParseManager(required, links)
	if err != nil || len(warnings) > 0 || c.GRPCPort != daemon.Default().GRPCPort {
		t.Errorf("%s, %q, %v", shown(c), warnings, err)
	}
	c, _, err = ParseManager(required, []string{"ETCDADM_GRPC_PORT=8001"})
	if err != nil || c.GRPCPort != 8001 {
		t.Errorf("a number is the flag's: %+v, %v", c, err)
	}
}
