//go:build !linux

package testkube

import "syscall"

// dieWithTest: only Linux ends a child with its parent.
func dieWithTest() *syscall.SysProcAttr { return nil }
