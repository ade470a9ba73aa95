package testkube

import "syscall"

// dieWithTest makes the kernel kill a server when the test process dies without
// cleaning up: a panic, a test time-out, kill -9. The kernel ties this to the
// thread that started the server; the Go runtime ends a thread only when a
// goroutine locked to it returns, so a test that locks its thread has to stop
// its servers before.
func dieWithTest() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
