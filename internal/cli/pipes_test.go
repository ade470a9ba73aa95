package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/hostsfile"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/snapshot"
)

func pipeAt(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// atOnce fails the test when something waits that should not.
func atOnce(t *testing.T, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it waits at the pipe")
		return nil
	}
}

// Where a person named a pipe for a file, that is said, and not waited for: what is read
// here is read by daemons, or more than once.
func TestPipeInPlaceOfFile(t *testing.T) {
	for name, open := range map[string]func(path string) error{
		"environment": func(p string) error { _, err := envfile.Read(p); return err },
		"authority":   func(p string) error { _, err := pki.LoadAuthorityFiles("x", p, "", time.Now()); return err },
		"identities": func(p string) error {
			_, err := backupstore.Choices{IdentityFile: p}.Identities()
			return err
		},
		"snapshot":  func(p string) error { _, err := snapshot.Verify(t.Context(), p); return err },
		"database":  func(p string) error { return snapshot.Dump(t.Context(), p, nil) },
		"key pair":  func(p string) error { _, err := console.EtcdAccess{Cert: p, Key: p}.TLS(); return err },
		"CA bundle": func(p string) error { _, err := remote.Transport(time.Minute, p); return err },
		"hosts": func(p string) error {
			_, err := hostsfile.File{Path: p, Cluster: "c"}.Set(t.Context(), nil)
			return err
		},
		"daemon's file": func(p string) error { return accessOf(p) },
	} {
		t.Run(name, func(t *testing.T) {
			path := pipeAt(t)
			if err := atOnce(t, func() error { return open(path) }); !errors.Is(err, regular.ErrNotRegular) || !strings.Contains(err.Error(), path) {
				t.Errorf("said %v", err)
			}
		})
	}
}

// accessOf reads the access that lies in a data directory where the pipe is.
func accessOf(pipe string) error {
	dir := filepath.Dir(pipe)
	if err := os.Mkdir(filepath.Join(dir, "etcdadm"), 0o700); err != nil {
		return err
	}
	if err := os.Rename(pipe, filepath.Join(dir, "etcdadm", "access.json")); err != nil {
		return err
	}
	_, err := console.ReadAccess(dir)
	if err != nil {
		err = errors.Join(err, errors.New(pipe))
	}
	return err
}

// What a command reads once may come from a pipe, as a shell makes one for <(...).
func TestPipeThatIsWritten(t *testing.T) {
	written := func(content string) string {
		path := pipeAt(t)
		holder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else what was written goes with the writer
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { holder.Close() })
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { f.Close() })
		return path
	}
	t.Run("observation", func(t *testing.T) {
		path := written("{}")
		if err := atOnce(t, func() error {
			data, err := readInput(t.Context(), path)
			if string(data) != "{}" {
				t.Errorf("read %q", data)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("password", func(t *testing.T) {
		ask := new(password).credential("root", written("secret\n"))
		for range 3 { // etcd asks again when a token has ended
			if err := atOnce(t, func() error {
				user, word, err := ask(t.Context())
				if user != "root" || word != "secret" {
					t.Errorf("read %q of %q", word, user)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("key pair and authority", func(t *testing.T) {
		dir := t.TempDir()
		if _, err := pki.Create(dir, time.Now()); err != nil {
			t.Fatal(err)
		}
		content := func(suffix string) string {
			data, err := os.ReadFile(filepath.Join(dir, pki.ClientsCA+suffix))
			if err != nil {
				t.Fatal(err)
			}
			return written(string(data))
		}
		e := console.EtcdAccess{CA: content(".crt"), Cert: content(".crt"), Key: content(".key")}
		if err := atOnce(t, func() error {
			c, err := e.CommandTLS(t.Context())
			if err == nil && (len(c.Certificates) != 1 || c.RootCAs == nil) {
				t.Errorf("%d certificates, the authority %v", len(c.Certificates), c.RootCAs)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("identities", func(t *testing.T) {
		b := &backups{identity: written("# nothing but a comment\n")}
		err := atOnce(t, func() error { _, err := b.identities(t.Context()); return err })
		if err == nil || errors.Is(err, regular.ErrNotRegular) || !strings.Contains(err.Error(), b.identity) {
			t.Errorf("said %v", err)
		}
	})
}

// Who writes to a named pipe begins once somebody has opened it to read, and what was
// written is lost with a reader who closes it: so it is opened once.
func TestPipeWithWaitingWriter(t *testing.T) {
	for range 50 { // what a second opening finds depends on who is faster
		path := pipeAt(t)
		holder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		writer, err := os.OpenFile(path, os.O_WRONLY, 0) // would wait without a reader
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Close(); err != nil {
			t.Fatal(err)
		}
		wrote := make(chan error, 1)
		go func() {
			_, err := writer.WriteString("secret\n")
			for since := time.Now(); errors.Is(err, syscall.EPIPE) && time.Since(since) < 20*time.Second; {
				_, err = writer.WriteString("secret\n")
			}
			wrote <- errors.Join(err, writer.Close())
		}()
		if err := atOnce(t, func() error {
			data, err := new(password).read(t.Context(), path)
			if err == nil && string(data) != "secret\n" {
				t.Errorf("read %q", data)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever writes the password may ask a person for it, and take longer than a call to etcd
// may: it is read before the first one.
func TestPasswordIsReadBeforeEtcdIsAsked(t *testing.T) {
	path := pipeAt(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	asked := make(chan struct{})
	etcd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(asked)
		if conn, err := etcd.Accept(); err == nil {
			conn.Close()
		}
	}()
	e := etcdFlags{urls: []string{"http://" + etcd.Addr().String()}, user: "root", passwordFile: path}
	end := make(chan error, 1)
	go func() { _, err := e.pick(t.Context()); end <- err }()
	select {
	case <-asked:
		t.Error("etcd is asked before the password is there")
	case err := <-end:
		t.Fatalf("ended before the password was there: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := writer.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := atOnce(t, func() error { <-asked; etcd.Close(); return <-end }); err == nil || !strings.Contains(err.Error(), "no etcd answers") {
		t.Errorf("said %v", err)
	}
	if string(e.password.piped) != "secret\n" {
		t.Errorf("read %q", e.password.piped)
	}
}

func TestUserAndPasswordBelongTogether(t *testing.T) {
	for _, e := range []*etcdFlags{{user: "root"}, {passwordFile: "/pw"}} {
		e.urls = []string{"http://127.0.0.1:1"}
		if _, err := e.pick(t.Context()); err == nil || !strings.Contains(err.Error(), "--etcd-user and --etcd-password-file belong together") {
			t.Errorf("said %v", err)
		}
	}
}

// A pipe at whose other end nobody is would be waited for without an end.
func TestPipeWithoutWriter(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, path string) error{
		"observation": func(ctx context.Context, p string) error { _, err := readInput(ctx, p); return err },
		"password": func(ctx context.Context, p string) error {
			_, _, err := new(password).credential("root", p)(ctx)
			return err
		},
		"identities": func(ctx context.Context, p string) error {
			_, err := (&backups{identity: p}).identities(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := pipeAt(t)
			if err := atOnce(t, func() error { return read(t.Context(), path) }); !errors.Is(err, regular.ErrEmptyPipe) {
				t.Errorf("said %v", err)
			}
		})
	}
}

// A password's file may be changed while a command runs.
func TestPasswordIsReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	ask := new(password).credential("root", file)
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, got, err := ask(t.Context()); err != nil || got != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
}

// Whoever writes to a pipe may be asking a person: what adopt waits for meanwhile is told.
func TestAdoptSaysThatItWaitsForAPassword(t *testing.T) {
	t.Parallel()
	path := pipeAt(t)
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var said bytes.Buffer
	a := &adoptFlags{say: &said}
	a.join.user, a.join.passwordFile = "root", path
	go func() {
		time.Sleep(workSays + time.Second)
		fmt.Fprintln(w, "secret")
		w.Close()
	}()
	ask, err := a.credential(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, word, err := ask(t.Context()); err != nil || word != "secret" {
		t.Errorf("read %q, %v", word, err)
	}
	if !strings.Contains(said.String(), "reading --password-file") || strings.Contains(said.String(), "secret") {
		t.Errorf("said %q", said.String())
	}
}
