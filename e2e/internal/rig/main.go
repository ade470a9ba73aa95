package rig

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
)

var (
	Long = flag.Bool("e2e.long", false, "run the tests that take long, too")
	keep = flag.Bool("e2e.keep", false, "keep the directories of the clusters")
)

// TakesLong skips a test that the ordinary run has no time for.
func TakesLong(t *testing.T, howLong string) {
	t.Helper()
	if !*Long {
		t.Skipf("takes %s: -e2e.long", howLong)
	}
}

// Programs is where the binaries under test are.
var Programs string

// noReleases is the root below which the programs under test look for what a machine has:
// what lies in /opt here is none of a test's business.
const noReleases = "/nonexistent"

// programsEnv names a directory with programs that somebody else has built: many
// runs one after the other, or somebody else's programs.
const programsEnv = "ETCDADM_E2E_PROGRAMS"

// watchdogEnv marks the copy of this program that outlives it.
const watchdogEnv = "ETCDADM_E2E_WATCHDOG"

// Main runs a package's tests, with the programs under test built, and ends the
// process.
func Main(m *testing.M) {
	if os.Getenv(watchdogEnv) != "" {
		watchdog(os.Stdin)
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); !given("test.parallel") {
		// Most of a test is waiting for time-outs, not computing.
		f.Value.Set("4")
	}
	os.Exit(run(m))
}

func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

func run(m *testing.M) int {
	// Most tests of a package use these; another one is fetched by who asks for it.
	testetcd.Prepare(5*time.Minute, testetcd.V36, testetcd.V37, testetcd.V35, testetcd.V34)
	dir, err := os.MkdirTemp("", "etcdadm-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	Programs = os.Getenv(programsEnv)
	if Programs == "" {
		if err := build(dir); err != nil {
			fmt.Fprintln(os.Stderr, "build the programs under test:", err)
			return 1
		}
		Programs = dir
	}
	objectStoreKeys()
	stop, err := startWatchdog()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the watchdog:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// build makes the programs under test. The packages of e2e run beside each other and one
// after the other, so they share a place of this checkout, in which the go command links
// only what has changed; what a package runs are names of its own for the same files.
func build(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	below := strings.LastIndex(here+"/", "/e2e/")
	if below < 0 {
		return fmt.Errorf("find the checkout: %s is not below its e2e", here)
	}
	root := here[:below]
	cache, err := testetcd.CacheDir()
	if err != nil {
		return err
	}
	shared := filepath.Join(filepath.Dir(cache), "test-programs", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(shared, 0o700); err != nil {
		return err
	}
	unlock, err := testetcd.LockFile(ctx, shared+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false",
		"-ldflags=-X etcdadm.io/internal/release.SystemRoot="+noReleases, // no release of this machine's own is found
		"-o", shared+string(filepath.Separator), "./cmd/...")
	cmd.Dir = root
	cmd.Env = testenv.Outside()
	cmd.WaitDelay = 5 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	made, err := os.ReadDir(shared)
	if err != nil {
		return err
	}
	for _, program := range made {
		from, to := filepath.Join(shared, program.Name()), filepath.Join(dir, program.Name())
		if os.Link(from, to) == nil {
			continue
		}
		data, err := os.ReadFile(from) // another file system
		if err == nil {
			err = os.WriteFile(to, data, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// watched is the pipe to the watchdog: one directory a line.
var watched struct {
	sync.Mutex
	pipe io.Writer
}

// watch has the processes of a directory ended when this program ends, however
// that comes.
func watch(dir string) {
	watched.Lock()
	defer watched.Unlock()
	fmt.Fprintln(watched.pipe, dir)
}

// startWatchdog runs a copy of this program that ends what a test process that
// was killed leaves behind: etcd does not end with the daemon, on purpose.
func startWatchdog() (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), watchdogEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of the terminal's reach
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	watched.pipe = pipe
	return func() {
		pipe.Close()
		cmd.Wait()
	}, nil
}

// watchdog reads directories until the other end is gone, then ends every
// process that was started for one of them.
func watchdog(in io.Reader) {
	var dirs []string
	for s := bufio.NewScanner(in); s.Scan(); {
		dirs = append(dirs, s.Text())
	}
	for _, dir := range dirs {
		EndAll(dir)
		unmountBelow(dir)
	}
}

// unmountBelow takes away the disks of hosts that were mounted below a directory:
// a test that was killed has not.
func unmountBelow(dir string) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			_ = syscall.Unmount(f[4], syscall.MNT_DETACH) // nobody is left who could be told
		}
	}
}

// EndAll kills what was started for a directory, until nothing is left: a
// daemon may start an etcd while this looks.
func EndAll(dir string) error {
	deadline := time.Now().Add(20 * time.Second)
	killed := map[int]bool{}
	for {
		pids := ProcessesOf(dir)
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
			killed[pid] = true
		}
		for pid := range killed { // it has no arguments any more before its ports are free
			if !ended(pid) {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s do not end", pids, dir)
		}
		time.Sleep(20 * time.Millisecond) // the end of a process that is not our child is no event
	}
}
