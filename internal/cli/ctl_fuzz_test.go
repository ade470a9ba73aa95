package cli

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzCtlArgs: whatever stands behind etcd-manager-ctl, it ends with a code that is
// documented, says why where that is not 0, and leaves nothing beside its store.
func FuzzCtlArgs(f *testing.F) {
	for _, line := range []string{
		"", "--help", "get", "-member-count=3 --etcd-version v3.6.16 configure-cluster", "configure-cluster --member-count 0", "list-commands -all",
		"restore-backup 2026-11-20T23:14:17Z-000001", "restore-backup ../../etc/passwd", "delete-command \x00", "delete-command a/b", "create-backup", "list-backups x",
		"--member-count=99999999999999999999 configure-cluster", "--logtostderr -v 2 --what=ever get", "-- --x", "- get", "--all=perhaps list-commands", "--=x",
		"--etcd-version=3.6.16 --member-count=-1 configure-cluster",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		var out, said bytes.Buffer
		c, words, err := parseCtl(args, &out, &said)
		if err != nil {
			if _, told := errors.AsType[*Failure](err); !told && !errors.Is(err, flag.ErrHelp) || err.Error() == "" {
				t.Fatalf("%q: %v", args, err)
			}
			return
		}
		around := t.TempDir()
		c.store = "file://" + filepath.Join(around, "store")
		if err := os.Mkdir(filepath.Join(around, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
		code := Report(&said, "etcd-manager-ctl", c.run(t.Context(), words, &out))
		switch code {
		case ExitOK:
		case ExitError, ExitUsage, ExitNoCluster, ExitUnsafe:
			if said.Len() == 0 {
				t.Fatalf("%q ends with %d and says nothing", args, code)
			}
		default:
			t.Fatalf("%q ends with %d: %s", args, code, &said)
		}
		left, err := os.ReadDir(around)
		if err != nil || len(left) != 1 {
			t.Fatalf("%q left %v: %v", args, left, err)
		}
	})
}

// What has a credential in it is not repeated, though a script may log what is printed.
func TestCtlDoesNotShowACredential(t *testing.T) {
	var out, said bytes.Buffer
	c := &ctl{store: "s3://someone:hunter2@bucket/x?secretkey=hunter2", warn: func(...string) {}, say: io.Discard}
	if code := Report(&said, "etcd-manager-ctl", c.run(t.Context(), []string{"get"}, &out)); code == ExitOK {
		t.Error("it was taken")
	}
	if all := out.String() + said.String(); strings.Contains(all, "hunter2") || !strings.Contains(all, "bucket") {
		t.Errorf("it says %s", all)
	}
}
