package daemon

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testlog"
)

// A look for releases beside a daemon that runs may stand still with a mount: that is told
// after its time, again each minute, and when it is over.
func TestALookForReleasesThatStandsStillIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said testlog.Lines
		i := &inventory{finder: &release.Finder{Dirs: []string{"/releases"}}, said: once{log: slog.New(slog.NewTextHandler(&said, nil))}}
		ended := make(chan struct{})
		go i.tell(ended)
		time.Sleep(relook - time.Second)
		synctest.Wait()
		if said.String() != "" {
			t.Errorf("in its time: %s", said.String())
		}
		time.Sleep(time.Minute + 2*time.Second)
		synctest.Wait()
		if n := strings.Count(said.String(), "stands still"); n != 2 || !strings.Contains(said.String(), "/releases") {
			t.Errorf("told %d times: %s", n, said.String())
		}
		close(ended)
		synctest.Wait()
		if !strings.Contains(said.String(), "has ended") {
			t.Errorf("at its end: %s", said.String())
		}
	})
}
