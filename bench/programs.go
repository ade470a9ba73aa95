package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"etcdadm.io/internal/testetcd"
)

// prepare builds our programs and fetches etcd's releases.
func (b *bench) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	var err error
	if b.cache, err = testetcd.CacheDir(); err != nil {
		return err
	}
	for _, v := range testetcd.Versions() {
		if _, err := testetcd.Fetch(ctx, v); err != nil {
			return err
		}
	}
	if b.programs != "" {
		b.bin, err = filepath.Abs(b.programs)
		return err
	}
	b.bin = filepath.Join(b.dir, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", b.bin+"/",
		"etcdadm.io/cmd/etcd-manager", "etcdadm.io/cmd/etcd-manager-ctl", "etcdadm.io/cmd/etcdadm")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build our programs: %w\n%s", err, bytes.TrimSpace(said))
	}
	return nil
}

// configure writes the spec into the store, as a person does.
func (b *bench) configure(ctx context.Context, store string, members int, version string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ctl := exec.CommandContext(ctx, filepath.Join(b.bin, "etcd-manager-ctl"), "--backup-store="+store,
		fmt.Sprintf("--member-count=%d", members), "--etcd-version="+version, "configure-cluster")
	if said, err := ctl.CombinedOutput(); err != nil {
		return fmt.Errorf("configure the cluster: %w\n%s", err, bytes.TrimSpace(said))
	}
	return nil
}
