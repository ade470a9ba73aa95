package cli

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/plan"
)

// shellAsks has the program complete words, as a shell does, and returns what it offers.
func shellAsks(t *testing.T, words ...string) []string {
	t.Helper()
	code, out, errs := runEtcdadm(append([]string{"__complete"}, words...)...)
	if code != ExitOK {
		t.Fatalf("%q: %d %s%s", words, code, out, errs)
	}
	var all []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, ":") && line != "" {
			all = append(all, line)
		}
	}
	return all
}

func TestCompletion(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	t.Setenv("ETCDADM_STORE", "")
	a := &answering{report: healthyReport()}
	o := a.report.Observation
	a.report.Contacts = []cluster.Contact{{Host: "spare"}}
	a.report.Queue = []plan.Waiting{{Command: "2026-11-20T23:17:07Z-000000", Kind: cluster.CommandBackup, What: "of the cluster"}}
	for i := range o.Hosts {
		o.Hosts[i].Releases = []cluster.Version{cluster.MustVersion("3.6.16"), cluster.MustVersion("3.7.3")}
	}
	sick(o, 2)
	at := []string{"--endpoint=" + a.serve(t, "test", "a"), "--cluster-name=test"}
	const healthy = "\tvoter, healthy"
	for line, want := range map[string][]string{
		"member remove ":              {"a" + healthy, "b" + healthy, "c\tvoter, "},
		"member add ":                 {"spare\tno member"},
		"restart a ":                  {"b" + healthy, "c\tvoter, "},
		"host pause ":                 {"a" + healthy, "b" + healthy, "c\tvoter, ", "spare\tno member"},
		"member replace a --by ":      {"spare\tno member"},
		"recover --lost ":             {"a" + healthy, "b" + healthy, "c\tvoter, ", "spare\tno member"},
		"restore ":                    {"2026-11-20T22:08:18Z-000001"},
		"upgrade ":                    {"3.7.3\ton a host", "3.6.16\ton a host"},
		"queue cancel ":               {"2026-11-20T23:17:07Z-000000\tbackup of the cluster"},
		"config get quota-backend-by": {"quota-backend-bytes"},
		"config set quota-backend-by": {"quota-backend-bytes="},
		"alarm disarm ":               {"NOSPACE", "CORRUPT"},
		"status -o ":                  {"table", "json", "yaml"},
		"member list --output ":       {"table", "json", "yaml"},
		"member move-leader a extra ": {},
		"host resume ":                {},
	} {
		words := strings.Split(line, " ")
		words = slices.Concat(words[:1], at, words[1:])
		if commands := []string{"member", "host", "queue", "config", "alarm"}; slices.Contains(commands, words[0]) {
			words = slices.Concat(words[:1], words[3:4], at, words[4:])
		}
		got := shellAsks(t, words...)
		ok := len(got) == len(want)
		for i := range want {
			ok = ok && strings.HasPrefix(got[i], want[i])
		}
		if !ok {
			t.Errorf("%q offers %q, want %q", line, got, want)
		}
	}
	if got := shellAsks(t, "certs", "issue", "--for", ""); len(got) != 3 || !strings.HasPrefix(got[0], "kube-apiserver\t") {
		t.Errorf("%q", got)
	}
	if got := shellAsks(t, "download", "3.7"); len(got) < 2 || !strings.HasPrefix(got[0], "3.7.") {
		t.Errorf("%q", got)
	}
}

// A daemon that does not answer is not waited for long, and nothing is said about it.
func TestCompletionIsQuickAndSilent(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, where := range [][]string{{"--endpoint=" + mute.Addr().String(), "--cluster-name=c"}, {"--endpoint=127.0.0.1:1", "--cluster-name=c"}, {"--data-dir=/nowhere"}, nil} {
		began := time.Now()
		_, out, errs := runEtcdadm(append(append([]string{"__complete", "restart"}, where...), "")...)
		if took := time.Since(began); took > completeWithin+time.Second || !strings.HasPrefix(out, ":4") || strings.Count(errs, "\n") != 1 { // cobra's own word on the directive
			t.Errorf("%q: after %s %q, %q", where, took, out, errs)
		}
	}
}

func TestCompletedCommandsExist(t *testing.T) {
	root := tree(daemon.Program{})
	for path := range completed {
		if commandAt(root, path) == nil {
			t.Errorf("no command %q", path)
		}
	}
	for path, flags := range completedFlags {
		c := commandAt(root, path)
		if c == nil {
			t.Errorf("no command %q", path)
			continue
		}
		for name := range flags {
			if c.Flag(name) == nil {
				t.Errorf("%s has no flag --%s", path, name)
			}
		}
	}
}
