package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// programs are what a release has of cmd/, and those of the operator's module.
var (
	hostPrograms     = []string{"etcdadm", "etcd-manager", "etcd-manager-ctl", "etcd-backup", "etcd-backup-ctl", "etcd-dump"}
	operatorPrograms = []string{"etcdadm-operator", "kubectl-etcdadm"}
	programs         = slices.Concat(hostPrograms, operatorPrograms)
)

// buildWithin bounds the build of everything for one architecture, from nothing, on a busy machine.
const buildWithin = 30 * time.Minute

// bin is where the programs for an architecture lie.
func (r *release) bin(arch string) string { return filepath.Join(r.out, "bin", "linux-"+arch) }

// runner is the program of the image that keeps a log file of another one.
func (r *release) runner(arch string) string {
	return filepath.Join(r.work, "linux-"+arch, "go-runner")
}

func (r *release) build(ctx context.Context) error {
	for _, arch := range r.arches {
		if err := os.MkdirAll(r.bin(arch), 0o755); err != nil {
			return err
		}
		if err := r.goBuild(ctx, r.root, arch, r.bin(arch)+"/", commands(hostPrograms)...); err != nil {
			return err
		}
		if err := r.goBuild(ctx, filepath.Join(r.root, "operator"), arch, r.bin(arch)+"/", commands(operatorPrograms)...); err != nil {
			return err
		}
		if err := r.goBuild(ctx, filepath.Join(r.root, "tools", "release"), arch, r.runner(arch), "./go-runner"); err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(r.bin(arch), "etcdadm"))
		if err != nil {
			return err
		}
		say("etcdadm for %s has %.1f MB", arch, float64(info.Size())/1e6)
	}
	return nil
}

// commands are the packages of these programs.
func commands(programs []string) (packages []string) {
	for _, p := range programs {
		packages = append(packages, "./cmd/"+p)
	}
	return packages
}

// linked is what the linker writes into the programs.
func (r *release) linked() string { return "-X etcdadm.io/internal/version.Release=" + r.version }

// waiting is what waits for a network or for a person: the clients of the stores and the commands. No inlining in them
// makes the programs 2.6 MB smaller.
var waiting = []string{
	"github.com/aws/...", "github.com/Azure/...", "github.com/AzureAD/...", "google.golang.org/api/...", "github.com/googleapis/...", "cloud.google.com/...",
	"github.com/google/s2a-go/...", "golang.org/x/oauth2/...", "github.com/golang-jwt/...", "github.com/spf13/...", "github.com/olekukonko/...",
	"etcdadm.io/internal/cli", "etcdadm.io/internal/setup", "etcdadm.io/internal/adoption/...",
}

// goBuild makes static programs whose bytes hang on nothing of this machine but its Go.
func (r *release) goBuild(ctx context.Context, dir, arch, out string, packages ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w " + r.linked(), "-o", out}
	for _, p := range waiting {
		args = append(args, "-gcflags="+p+"=-l")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "PWD="+dir)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", arch, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// runnable is an etcdadm that runs on this machine.
func (r *release) runnable(ctx context.Context) (string, error) {
	if runtime.GOOS == "linux" && slices.Contains(r.arches, runtime.GOARCH) {
		return filepath.Join(r.bin(runtime.GOARCH), "etcdadm"), nil
	}
	path := filepath.Join(r.work, "etcdadm")
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/etcdadm")
	cmd.Dir = r.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build for this machine: %w\n%s", err, strings.TrimSpace(string(said)))
	}
	return path, nil
}
