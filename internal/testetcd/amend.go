package testetcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// amendment is a change that a module of old needs to run when today's Go has
// compiled it. It is made in a copy in the cache, while the release is built.
type amendment struct {
	module, file string
	old, new     string
}

// Since 1.22 Go refuses to start on a base64 alphabet with a repeated
// character, as the codec that etcd used up to 3.2 has one.
const (
	twice = `wxyz0123456789__"`
	once  = `wxyz0123456789_-"`
)

var amendments = map[string]amendment{
	V32: {"github.com/ugorji/go", "codec/gen.go", twice, once},
	V23: {"github.com/coreos/etcd", "Godeps/_workspace/src/github.com/ugorji/go/codec/gen.go", twice, once},
	V22: {"github.com/coreos/etcd", "Godeps/_workspace/src/github.com/ugorji/go/codec/gen.go", twice, once},
}

// amended copies the release's module to dir, together with the one that has to
// be changed, and has the first use the second.
func amended(ctx context.Context, source, dir string, a amendment) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	said, err := goCommand(ctx, dir, "mod", "download", "-json", a.module)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(said, &module); err != nil || module.Dir == "" {
		return fmt.Errorf("find the source of %s: %w", a.module, errors.Join(err, errors.New(string(said))))
	}
	copied := filepath.Join(dir, "amended")
	if err := os.CopyFS(copied, os.DirFS(module.Dir)); err != nil {
		return fmt.Errorf("copy %s: %w", a.module, err)
	}
	file := filepath.Join(copied, a.file)
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if bytes.Count(content, []byte(a.old)) != 1 {
		return fmt.Errorf("%s of %s is not the file that is known", a.file, a.module)
	}
	content = bytes.Replace(content, []byte(a.old), []byte(a.new), 1)
	if err := os.Chmod(file, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(copied, "go.mod"), []byte("module "+a.module+"\n"), 0o644); err != nil {
		return err
	}
	_, err = goCommand(ctx, dir, "mod", "edit", "-replace="+a.module+"=./amended")
	return err
}

func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, buildEnvironment()
	cmd.WaitDelay = 5 * time.Second
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %v: %w\n%s%s", args, errors.Join(err, ctx.Err()), said, bytes.TrimSpace(complaints.Bytes()))
	}
	return said, nil
}
