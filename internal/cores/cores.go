// Package cores says how many cores the program uses, a daemon waits nearly all the time, and work that compresses or
// hashes takes all that the machine or the container has; and what etcd may use of them and of the memory.
package cores

import (
	"os"
	"runtime"
	"sync"
)

// use is how many cores the program was given, and who asks for all of them.
var use struct {
	mu   sync.Mutex
	kept bool // to one
	busy int  // how many are at work that is worth more
	most int  // that Go would use by itself; 0: it was never asked
}

// KeepToOne lets Go run this program's goroutines on one core at a time,
// unless the environment says how many (GOMAXPROCS). A daemon waits nearly all
// the time, and each time that it wakes up, idle cores look for work. Measured
// on an idle cluster of three, side by side on a busy machine of two cores
// (medians of 8 samples of 30 s, of daemons that follow): a daemon costs 0.143 % of
// a core and 27 switches of threads a second with it, 0.159 % and 35 without.
// Backups and restores take all cores while they last. It is for the whole process; the etcd that they start is not affected.
func KeepToOne() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	use.mu.Lock()
	defer use.mu.Unlock()
	use.kept = true
	use.most = runtime.GOMAXPROCS(1)
}

// TakeAll is for work that compresses or hashes; the function that it
// returns ends it. Without KeepToOne it changes nothing.
func TakeAll() (done func()) {
	use.mu.Lock()
	defer use.mu.Unlock()
	if use.busy++; use.kept && use.busy == 1 {
		runtime.SetDefaultGOMAXPROCS() // the limit of a container may be another one by now
	}
	return sync.OnceFunc(func() {
		use.mu.Lock()
		defer use.mu.Unlock()
		if use.busy--; use.kept && use.busy == 0 {
			runtime.GOMAXPROCS(1)
		}
	})
}

// limit is how many cores a container lets its programs use, as Go tells; 0: as many as the machine has.
func limit() int {
	use.mu.Lock()
	defer use.mu.Unlock()
	if use.most > 0 && use.most < runtime.NumCPU() {
		return use.most
	}
	return 0
}
