package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
	"github.com/spf13/pflag"
)

// Each command has its page, with its flags, its examples and all exit codes.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	dir := t.TempDir()
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	all := pages()
	if len(all) < 50 {
		t.Fatalf("only %d pages", len(all))
	}
	plain := strings.NewReplacer(`\-`, "-", `\&`, "", `\e`, `\`, `\\`, `\`)
	for _, p := range all {
		raw, err := os.ReadFile(filepath.Join(dir, p.file))
		if err != nil {
			t.Fatal(err)
		}
		text := plain.Replace(string(raw))
		if !strings.HasPrefix(string(raw), ".nh\n.TH \"ETCDADM") || !strings.Contains(text, "Jan 2026") {
			t.Errorf("%s begins with %.80q", p.file, raw)
		}
		p.command.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(text, "--"+f.Name) {
				t.Errorf("%s: without --%s", p.file, f.Name)
			}
		})
		for _, e := range cli.ExitCodes() {
			if !strings.Contains(text, fmt.Sprintf(".TP\n\\fB%d\\fP\n%s.\n", e.Code, e.Means)) {
				t.Errorf("%s: without exit code %d", p.file, e.Code)
			}
		}
		for line := range strings.Lines(p.command.Example) {
			if line = strings.TrimSpace(line); !strings.Contains(text, strings.TrimSuffix(line, `\`)) {
				t.Errorf("%s: without the example %q", p.file, line)
			}
		}
		for _, word := range strings.Fields(p.command.Long) { // nothing of it was taken for markup
			if !strings.Contains(text, word) {
				t.Errorf("%s: without %q of its description", p.file, word)
			}
		}
	}
}

// The first page names every command, that of the daemon every flag.
func TestCommandsAndFlagsAreListed(t *testing.T) {
	for _, p := range pages() {
		raw, err := p.roff()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), `\-`, "-")
		switch p.file {
		case "etcdadm.8":
			for _, want := range []string{".SS Start a cluster\n.TP\n\\fBetcdadm adopt\\fP\n", "\\fBetcdadm status\\fP\nShow hosts", ".SS Repair it\n"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s: without %q", p.file, want)
				}
			}
		case "etcdadm-member.8":
			if !strings.Contains(text, "\\fBetcdadm member move-leader\\fP\n") {
				t.Errorf("%s: %s", p.file, text)
			}
		case "etcdadm-auto.8":
			if !strings.Contains(text, "\\fB--grpc-port\\fP\n") || !strings.Contains(text, "(default 8000)") || strings.Contains(text, "logtostderr") {
				t.Errorf("%s: %s", p.file, text)
			}
		}
	}
}

// The same twice, byte for byte.
func TestPagesAreTheSameEachTime(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	t.Setenv("ETCDADM_DATA_DIR", "")
	a, b := t.TempDir(), t.TempDir()
	if err := run([]string{a}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETCDADM_DATA_DIR", "/of/who/makes/them")
	if err := run([]string{b}); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages() {
		first, err := os.ReadFile(filepath.Join(a, p.file))
		second, again := os.ReadFile(filepath.Join(b, p.file))
		if err != nil || again != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: %v, %v, or they differ", p.file, err, again)
		}
	}
}

func TestCalledWrongly(t *testing.T) {
	if run(nil) == nil || run([]string{"a", "b"}) == nil {
		t.Error("it takes a directory")
	}
}
