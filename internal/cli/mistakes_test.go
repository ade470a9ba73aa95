package cli

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
)

// TestMistakes: what a person types wrongly is answered with what was likely
// meant, and with the exit code of a usage; a daemon that is away with another.
func TestMistakes(t *testing.T) {
	for _, name := range []string{"ETCDADM_DATA_DIR", "ETCDADM_STORE"} {
		t.Setenv(name, "")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // as a daemon with TLS, or etcd, treats who speaks without
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // as the kernel takes connections for a process that is stopped
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	gone.Close()
	missing := filepath.Join(t.TempDir(), "no", "such", "file.db")
	at := func(e string, words ...string) []string {
		return append(words, "--endpoint="+e, "--cluster-name=c")
	}
	tests := []struct {
		line  []string
		code  int
		words []string
		never string
	}{
		{[]string{"statsu"}, ExitUsage, []string{`unknown command "statsu"`, "status"}, ""},
		{[]string{"member", "ad", "x"}, ExitUsage, []string{`unknown command "ad"`, "is etcdadm member add meant?"}, ""},
		{[]string{"member", "frobnicate"}, ExitUsage, []string{"its commands are add, list,"}, ""},
		{[]string{"member", "add"}, ExitUsage, []string{"accepts 1 arg", "etcdadm member add HOST"}, ""},
		{[]string{"status", "--data-dri=/x"}, ExitUsage, []string{"unknown flag: --data-dri", "is --data-dir meant?"}, ""},
		{[]string{"auto", "file:///x", "--backup-recipent=age1x"}, ExitUsage, []string{"unknown flag: --backup-recipent", "is --backup-recipient meant?"}, "ignored"},
		{[]string{"auto", "file:///x", "--from-the-future", "--cluster-name=c"}, ExitUsage, []string{"unknown flag: --from-the-future", "see --help"}, "ignored"},
		{[]string{"auto", "file:///x", "--backup-recipient=", "age1x"}, ExitUsage, []string{`do not know what "age1x" means`}, "ignored"},
		{[]string{"backup", "run", "--backup-store=file:///x", "--recipient=x"}, ExitUsage, []string{"unknown flag: --recipient"}, "ignored"},
		{[]string{"seed", "file:///x", "--verson", "3.6.16"}, ExitUsage, []string{"is --version meant?"}, ""},
		{[]string{"seed", "file:///x", "--nodes", "three"}, ExitUsage, []string{"--nodes", "a whole number is wanted"}, "strconv"},
		{[]string{"restore", "x", "--wait", "10"}, ExitUsage, []string{"--wait", "such as 90s"}, "time:"},
		{at(nobody, "member", "remove", "x", "--timeout=0"), ExitUsage, []string{"--timeout=0s is no time to wait", "such as --timeout=2m"}, "is the daemon running"},
		{at(nobody, "member", "promote", "x", "--timeout=-1m"), ExitUsage, []string{"--timeout=-1m0s is no time to wait"}, ""},
		{at(nobody, "defrag", "--wait=0"), ExitUsage, []string{"--wait=0s is no time to wait"}, ""},
		{[]string{"download", "3.6.16", "--timeout=0"}, ExitUsage, []string{"--timeout=0s is no time to wait"}, "deadline"},
		{[]string{"download", "3.6.16", "--download-connect-timeout=-1s"}, ExitUsage, []string{"--download-connect-timeout=-1s is no time to wait"}, ""},
		{[]string{"restore", "x", "--yes=maybe"}, ExitUsage, []string{"--yes", "true or false is wanted"}, "strconv"},
		{[]string{"status", "--data-dir="}, ExitUsage, []string{"etcdadm: say which cluster: --data-dir or --endpoint", "--data-dir names"}, ""},
		{[]string{"status", "--endpoints=" + nobody, "--cluster-name=c"}, ExitNoCluster, []string{"no daemon answers", nobody}, "unknown flag"},
		{[]string{"member", "remove", "x", "--endpoints=" + nobody, "--cluster-name=c"}, ExitNoCluster, []string{nobody}, "unknown flag"},
		{[]string{"adopt", "--endpoint=http://" + nobody, "--endpoints"}, ExitUsage, []string{"flag needs an argument: --endpoints"}, "unknown flag"},
		{at("127.0.0.1", "status"), ExitUsage, []string{"--endpoint=127.0.0.1 is not host:port", "--grpc-port"}, ""},
		{at("127.0.0.1:99999", "status"), ExitUsage, []string{"from 1 to 65535"}, ""},
		{at(nobody, "status"), ExitNoCluster, []string{"no daemon answers", nobody, "connection refused", "is the daemon running?"}, "desc ="},
		{at(nobody, "host", "prune", "--dir", "y"), ExitNoCluster, []string{nobody, "connection refused", "is the daemon running?"}, "desc ="},
		{at(l.Addr().String(), "status"), ExitNoCluster, []string{"it ends the connection", "with TLS", "--credentials", "--data-dir"}, "preface"},
		{at(mute.Addr().String(), "status"), ExitNoCluster, []string{"it accepts the connection and does not answer", "is the daemon stopped"}, "TLS"},
	}
	for _, test := range tests {
		var out, errs bytes.Buffer
		code := Main(test.line, daemon.Program{}, &out, &errs)
		said := errs.String()
		if code != test.code {
			t.Errorf("%q: exit code %d, want %d: %s", test.line, code, test.code, said)
		}
		for _, w := range test.words {
			if !strings.Contains(said, w) {
				t.Errorf("%q: %q is not in %s", test.line, w, said)
			}
		}
		if test.never != "" && strings.Contains(said, test.never) {
			t.Errorf("%q: it says %q: %s", test.line, test.never, said)
		}
		if !strings.Contains(said, "hint: ") {
			t.Errorf("%q: no hint in %s", test.line, said)
		}
	}
	if os.Getuid() != 0 {
		closed := t.TempDir()
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		test := []string{"status", "--data-dir", closed}
		var out, errs bytes.Buffer
		if code := Main(test, daemon.Program{}, &out, &errs); code != ExitError || !strings.Contains(errs.String(), "the daemon's user") {
			t.Errorf("%q: %d %s", test, code, errs.String())
		}
	}
	if _, err := saveNew(t.Context(), missing, strings.NewReader("x")); err == nil || strings.Contains(err.Error(), ".file.db.") || !strings.Contains(err.Error(), filepath.Dir(missing)) {
		t.Errorf("a snapshot into a directory that is not there: %v", err)
	}
}

// A help text repeats no store that the environment names.
func TestHelpShowsNoStore(t *testing.T) {
	t.Setenv("ETCDADM_STORE", "s3://user:planted@bucket/f")
	for _, line := range [][]string{{"restore"}, {"recover"}, {"adopt"}, {"backup", "list"}, {"config", "set"}, {"upgrade"}} {
		var out, errs bytes.Buffer
		if code := Main(append(line, "--help"), daemon.Program{}, &out, &errs); code != ExitOK || out.Len() == 0 {
			t.Errorf("%q: exit code %d: %s", line, code, errs.String())
		}
		if strings.Contains(out.String()+errs.String(), "planted") {
			t.Errorf("%q shows the URL of $ETCDADM_STORE", line)
		}
	}
}

// The flag that names daemons, and adopt's that names members, are taken in either number.
func TestEndpointInEitherNumber(t *testing.T) {
	for _, flag := range []string{"--endpoint", "--endpoints"} {
		var r reach
		c := &cobra.Command{Run: func(*cobra.Command, []string) {}}
		r.flags(c)
		adopt := adoptCommand(daemon.Program{})
		if err := c.ParseFlags([]string{flag + "=a:1,b:2"}); err != nil || len(r.endpoints) != 2 {
			t.Errorf("%s: %v, %q", flag, err, r.endpoints)
		}
		if err := adopt.ParseFlags([]string{flag + "=http://a:1"}); err != nil {
			t.Errorf("adopt %s: %v", flag, err)
		}
	}
	if _, err := noCluster(0, console.ErrNoDaemon); err == nil || strings.Contains(adviceOf(err), "systemctl") {
		t.Errorf("a unit is named that does not ship: %q", adviceOf(err))
	}
}

func adviceOf(err error) string {
	var told *Failure
	errors.As(err, &told)
	return told.Hint()
}
