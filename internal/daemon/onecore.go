package daemon

import (
	"os"
	"runtime"
)

// KeepToOneCore lets Go run this program's goroutines on one core at a time,
// unless the environment says how many (GOMAXPROCS). A daemon waits nearly all
// the time, and each time that it wakes up, idle cores that look for work cost
// about a fifth of what it costs in all; when it has much to do, the other
// cores are etcd's. It is for the whole process, so programs call it and this
// package does not; the etcd that they start is not affected.
func KeepToOneCore() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
