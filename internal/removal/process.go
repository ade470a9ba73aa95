package removal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/setup"
)

// etcdGrace is what etcd has to end in, before it is killed.
const etcdGrace = time.Minute

// lockData makes sure that no agent runs on a data directory, and that none starts on it; nil: there is nothing to lock.
func lockData(dataDir string) (*runtime.DirLock, error) {
	state := filepath.Join(dataDir, "etcdadm")
	if dataDir == "" || !there(state) {
		return nil, nil
	}
	lock, err := runtime.LockStateDir(state)
	if held, ok := errors.AsType[*runtime.LockedError](err); ok {
		return nil, &Error{Problem: fmt.Sprintf("an agent runs on %s (process %d), and no service manager of this machine ends it", dataDir, held.PID), Err: ErrRuns, Advice: "stop it, and run the command again to go on"}
	}
	return lock, err
}

// stopLeft ends an etcd that an agent has left running: a crash of the agent does not end it, and neither does systemd.
// The lock is held.
func (h *Host) stopLeft(ctx context.Context, dataDir string) error {
	path := filepath.Join(dataDir, "etcdadm", "process.json")
	data, err := regular.Read(path, regular.SmallSize)
	if errors.Is(err, fs.ErrNotExist) {
		return unlocked(dataDir)
	}
	if err != nil {
		return err
	}
	var recorded struct {
		Process runtime.ProcessRecord `json:"process"`
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if recorded.Process.DataDir == "" {
		return unlocked(dataDir)
	}
	child := runtime.NewChild(runtime.Options{Record: func(runtime.ProcessRecord) error { return nil }})
	defer child.Close()
	if err := adopt(ctx, child, recorded.Process, dataDir); err != nil {
		if held := unlocked(dataDir); held != nil { // it runs, and could not be proven to be the one that an agent began
			return fmt.Errorf("%w (not stopped: %w)", held, err)
		}
		return nil
	}
	h.say("stopping the etcd that an agent has left, process %d", recorded.Process.PID)
	if err := child.Stop(ctx, etcdGrace); err != nil {
		return err
	}
	return unlocked(dataDir)
}

// adopt takes over the recorded process. A unit in a container may be shown another boot than a person's shell: where
// something holds the data, the rest of the proof is enough (pid, time of its start, its argument, the directory).
func adopt(ctx context.Context, child *runtime.Child, r runtime.ProcessRecord, dataDir string) error {
	err := child.Adopt(ctx, r, r.DataDir)
	if refused, ok := errors.AsType[*runtime.RefusedError](err); !ok || refused.Reason != runtime.OtherBoot || r.PID == 0 || !errors.Is(unlocked(dataDir), ErrRuns) {
		return err
	}
	boot, berr := runtime.BootID()
	if berr != nil {
		return errors.Join(err, berr)
	}
	r.BootID = boot
	return child.Adopt(ctx, r, r.DataDir)
}

// unlocked is an error where an etcd holds data of this directory.
func unlocked(dataDir string) error {
	dirs, err := setup.MembersIn(dataDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		err := runtime.CheckUnlocked(dir)
		switch {
		case errors.Is(err, runtime.ErrLocked):
			return &Error{Problem: "an etcd still runs on " + dir, Err: errors.Join(ErrRuns, err), Advice: "stop it, and run the command again to go on"}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}
