package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pagesWithin is for a program that prints what it has in itself.
const pagesWithin = time.Minute

// completions are how etcdadm completes itself: the shell that it is asked for, and where that looks.
var completions = []struct{ shell, packager, path string }{
	{"bash", "", "/usr/share/bash-completion/completions/etcdadm"},
	{"zsh", "deb", "/usr/share/zsh/vendor-completions/_etcdadm"},
	{"zsh", "rpm", "/usr/share/zsh/site-functions/_etcdadm"},
	{"fish", "", "/usr/share/fish/vendor_completions.d/etcdadm.fish"},
}

// completion is the file with the completion for a shell.
func (r *release) completion(shell string) string { return filepath.Join(r.work, "completion", shell) }

// manual is the directory with the manual pages, packed.
func (r *release) manual() string { return filepath.Join(r.work, "manual") }

// manualWriter is the package of the program that writes the manual.
const manualWriter = "./internal/cli/manual"

// writePages writes what packages have of the commands, from the commands themselves.
func (r *release) writePages(ctx context.Context) error {
	if err := r.writeCompletions(ctx); err != nil {
		return err
	}
	return r.writeManual(ctx)
}

func (r *release) writeManual(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.root, manualWriter)); err != nil {
		say("no manual pages are in the packages: this commit has no %s", manualWriter)
		return nil
	}
	dir := filepath.Join(r.work, "pages")
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "-ldflags", r.linked(), manualWriter, dir)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()), "PWD="+r.root)
	if _, err := output(cmd); err != nil {
		return err
	}
	return packManual(dir, r.manual())
}

// packManual packs each page of a directory for another one, as man reads it.
func packManual(from, to string) error {
	pages, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(from, page.Name()))
		if err != nil {
			return err
		}
		var b strings.Builder
		z := gzip.NewWriter(&b) // whose header has neither a name nor a time
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, page.Name()+".gz"), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeCompletions has the program print how shells complete it.
func (r *release) writeCompletions(ctx context.Context) error {
	program, err := r.runnable(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.completion("bash")), 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pagesWithin)
	defer cancel()
	for _, c := range completions {
		cmd := exec.CommandContext(ctx, program, "completion", c.shell)
		cmd.Env = []string{"HOME=/nonexistent"} // no setting of this machine has a say
		text, err := output(cmd)
		if err != nil {
			return fmt.Errorf("completion for %s: %w", c.shell, err)
		}
		if err := os.WriteFile(r.completion(c.shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
