package cli

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A parent's death is told once for each of its threads: that is one request
// to end, and no impatience.
func TestSignalsOfOneMomentAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		var first []os.Signal
		ended := false
		go heed(signals, func(s os.Signal) { first = append(first, s) }, func() { ended = true })
		for range 5 {
			signals <- os.Interrupt
			time.Sleep(sameWord / 10)
		}
		synctest.Wait()
		if len(first) != 1 || ended {
			t.Fatalf("first %v, ended at once %v; want one gentle end", first, ended)
		}
		time.Sleep(sameWord)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if len(first) != 1 || !ended {
			t.Fatalf("first %v, ended at once %v; want a later signal to end the program", first, ended)
		}
	})
}
