package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"etcdadm.io/internal/testetcd"
)

// daemonHost is one host of a fleet.
type daemonHost struct {
	fleet   *fleet
	id      string
	address string
	dataDir string
	log     string // of the daemon
	cmd     *exec.Cmd
	ended   chan struct{}
}

func (f *fleet) host(id string, number int) *daemonHost {
	return &daemonHost{
		fleet: f, id: id, address: fmt.Sprintf("%s.%d", f.network, number),
		dataDir: filepath.Join(f.dir, id), log: filepath.Join(f.dir, id+".log"),
	}
}

func (h *daemonHost) on(port int) string {
	return h.address + ":" + strconv.Itoa(h.fleet.ports[port].Number)
}

func (h *daemonHost) seat() seat {
	return seat{name: h.id, endpoint: h.on(portClient), tls: h.fleet.tls}
}

// start runs the daemon; its output goes to a file.
func (h *daemonHost) start() error {
	f := h.fleet
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	url := func(port int) string { return "https://" + h.on(port) }
	args := []string{
		"--cluster-name=bench", "--host-id=" + h.id, "--address=" + h.address, "--etcd-address=" + h.address,
		"--backup-store=" + f.store(), "--data-dir=" + h.dataDir, "--pki-dir=" + f.pkiDir(),
		"--grpc-port=" + strconv.Itoa(f.ports[portDaemon].Number),
		"--etcd-manager-metrics-port=" + strconv.Itoa(f.ports[portMetrics].Number),
		"--client-urls=" + url(portClient), "--quarantine-client-urls=" + url(portQuarantine), "--peer-urls=" + url(portPeer),
	}
	if !f.b.builtin || f.version != testetcd.V37 {
		args = append(args, "--release-dir="+f.b.cache)
	}
	cmd := exec.Command(filepath.Join(f.b.bin, "etcd-manager"), append(args, f.flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// Should this program be killed, the daemon ends and takes etcd with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the daemon of %s: %w", h.id, err)
	}
	h.cmd, h.ended = cmd, make(chan struct{})
	go func() {
		defer close(h.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return nil
}

func (h *daemonHost) pid() int { return h.cmd.Process.Pid }

// kill kills the daemon, which does not take etcd with it, and waits for its end.
func (h *daemonHost) kill(ctx context.Context) {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Kill() // it may have ended
	select {
	case <-h.ended:
	case <-ctx.Done():
	}
}

// etcdPID reads which process the daemon keeps.
func (h *daemonHost) etcdPID() (int, error) {
	var record struct {
		Process struct {
			PID int `json:"pid"`
		} `json:"process"`
	}
	file := filepath.Join(h.dataDir, "etcdadm", "process.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("find etcd of %s: %w", h.id, err)
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return 0, fmt.Errorf("find etcd of %s: %w", h.id, err)
	}
	pid := record.Process.PID
	if pid == 0 || !argumentUnder(read(fmt.Sprintf("/proc/%d/cmdline", pid)), h.dataDir) {
		return 0, fmt.Errorf("find etcd of %s: process %d is not its", h.id, pid)
	}
	return pid, nil
}

// wipe kills daemon and etcd and takes the disk away.
func (h *daemonHost) wipe(ctx context.Context) error {
	pid, err := h.etcdPID()
	if err != nil {
		return err
	}
	h.kill(ctx)
	if err := kill9(ctx, pid); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return os.Rename(h.dataDir, h.dataDir+"-wiped")
}
