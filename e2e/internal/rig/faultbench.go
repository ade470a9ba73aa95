package rig

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Serve runs a program in the namespace. It ends with this process at the
// latest: the kernel kills it with the thread that started it, which is kept for
// nothing else.
func (n *namespace) Serve(cmd *exec.Cmd) (stop func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlocked
		err := unix.Setns(int(n.handle.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-ended
	}, nil
}
