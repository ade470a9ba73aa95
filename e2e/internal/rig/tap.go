package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// The objects of the control folder that these tests go by.
const (
	ControlFolder = "control/"
	RecordKey     = ControlFolder + "etcd-cluster-created"
	CommandFile   = "/_command.json"
	BesideFile    = "/_etcdadm.json"
	wishFile      = "/_etcdadm_command.json"
)

// StopNow stops the daemon, and returns when none of its threads goes on.
func (h *Host) StopNow() error {
	pid := h.Cmd.Process.Pid
	if err := StopProcess(pid); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < Soon; time.Sleep(time.Millisecond) { // no event tells
		threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
		if err != nil {
			return err
		}
		going := false
		for _, path := range threads {
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			_, rest, ok := strings.Cut(string(data), ") ") // behind the name, which may hold anything else
			going = going || ok && !strings.HasPrefix(rest, "T")
		}
		if !going {
			return nil
		}
	}
	return errors.New("it is not stopped by SIGSTOP")
}

// Kept is the record that a host keeps on its disk.
func (h *Host) Kept() (*cluster.Intent, error) {
	data, err := os.ReadFile(filepath.Join(h.Dir, "etcdadm", "state.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		State struct{ Intent *cluster.Intent }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("the state of host %d: %w", h.N, err)
	}
	return file.State.Intent, nil
}

// CopyLog writes what a daemon said into a pipe to its log.
func (h *Host) CopyLog(pipe io.Reader) {
	out, err := os.OpenFile(h.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.Copy(out, pipe) // ends with the pipe
}
