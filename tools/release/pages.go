package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// writePages has the program itself say what packages have of its commands.
func (r *release) writePages(ctx context.Context) error {
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
