package etcdscenarios

import "syscall"

// dieWithTest: a member does not outlive a test process that is killed.
func dieWithTest() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
