package teststore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// startDeadline bounds every wait for a server. Most serve within 200 ms, azurite within two seconds.
const startDeadline = 60 * time.Second

// What a test needs to get in.
const (
	Bucket    = "backups" // exists in every server but azurite, where it is to be made
	AccessKey = "test-access"
	SecretKey = "test-secret"
	Region    = "us-east-1"

	// AzureAccount and AzureKey are the published ones of every emulator of Azure's storage.
	AzureAccount = "devstoreaccount1"
	AzureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Server is one object store on loopback. Its methods may not be called concurrently.
type Server struct {
	URL  string // http://127.0.0.1:port
	Port int

	name string
	args []string
	env  []string
	log  string
	cmd  *exec.Cmd
	// ended is closed once cmd has been waited for.
	ended chan struct{}
}

// Start runs a server (one of Programs) for the time of a test and returns when it answers. Where it cannot be built, the test
// is skipped if the reason lies with this machine, and fails otherwise.
func Start(t testing.TB, name string) *Server {
	t.Helper()
	path, err := Fetch(t.Context(), name)
	if errors.Is(err, ErrNoNode) || err != nil && os.Getenv(offlineEnv) == "1" {
		t.Skipf("SKIPPED, %s is missing: %v", name, err)
	}
	if err != nil {
		t.Fatalf("%v (set %s=1 to skip such tests)", err, offlineEnv)
	}
	dir := t.TempDir()
	s := &Server{name: name, Port: testetcd.FreePort(t), log: filepath.Join(dir, name+".log")}
	s.URL = "http://127.0.0.1:" + strconv.Itoa(s.Port)
	if err := s.configure(path, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("end of %s:\n%s", s.log, s.tail(30))
		}
	})
	if err := s.Launch(t.Context()); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	if name == FakeGCSServer {
		if err := s.post(t.Context(), "/storage/v1/b", `{"name":"`+Bucket+`"}`); err != nil {
			t.Fatalf("make a bucket: %v", err)
		}
	}
	return s
}

func (s *Server) configure(path, dir string) error {
	port := strconv.Itoa(s.Port)
	switch s.name {
	case Versitygw:
		data := filepath.Join(dir, "data")
		// A directory of the posix backend is a bucket of its root account.
		if err := os.MkdirAll(filepath.Join(data, Bucket), 0o755); err != nil {
			return err
		}
		s.args = []string{path, "--port", "127.0.0.1:" + port, "posix", data}
		s.env = []string{"ROOT_ACCESS_KEY=" + AccessKey, "ROOT_SECRET_KEY=" + SecretKey}
	case Gofakes3:
		s.args = []string{path, "-host", "127.0.0.1:" + port, "-backend", "memory", "-initialbucket", Bucket}
	case FakeGCSServer:
		s.args = []string{path, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-public-host", "127.0.0.1:" + port}
	case Azurite:
		s.args = []string{path, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", port}
	}
	return nil
}

// Launch starts the server again after Kill; what it kept on disk is there again.
func (s *Server) Launch(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir = filepath.Dir(s.log)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithTest()
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// It dies with the thread that started it, so that thread is kept: others may
		// end in a test, after they were in a network namespace.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stays in cmd.ProcessState
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	return s.wait(ctx)
}

// wait asks until there is an answer, whatever it says. There is no event to wait for from outside.
func (s *Server) wait(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the process ended (%s); the end of its log:\n%s", s.cmd.ProcessState, s.tail(20))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// Kill ends the server as a power cut would, and waits for its end. One that has ended is no error.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.ended
}

// Rotate has a Versitygw take another key and secret, and those from before no longer.
func (s *Server) Rotate(ctx context.Context, key, secret string) error {
	s.Kill()
	s.env = []string{"ROOT_ACCESS_KEY=" + key, "ROOT_SECRET_KEY=" + secret}
	return s.Launch(ctx)
}

// Hang makes the server keep its connections and say nothing, until Resume.
func (s *Server) Hang() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Hang.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *Server) tail(lines int) string {
	content, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *Server) post(ctx context.Context, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startDeadline}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the server answers %s", response.Status)
	}
	return nil
}
