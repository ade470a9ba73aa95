package regular_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/regular"
)

const patience = 10 * time.Second

// soon runs what must not wait, and fails when it does.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s waits", what)
	}
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsNoFile(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	linked := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(pipe(t), linked); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{pipe(t), "it is a pipe, not a file"},
		{linked, "it is a pipe, not a file"},
		{socket, "it is a socket, not a file"},
		{t.TempDir(), "it is a directory, not a file"},
		{"/dev/zero", "it is a device, not a file"},
	} {
		for _, open := range []struct {
			name string
			do   func() error
		}{
			{"read", func() error { _, err := regular.Read(test.path, 10); return err }},
			{"open to write", func() error {
				_, err := regular.OpenFile(test.path, os.O_WRONLY, 0)
				if errors.Is(err, syscall.EISDIR) || errors.Is(err, fs.ErrPermission) {
					_, err = regular.Open(test.path)
				}
				return err
			}},
		} {
			soon(t, open.name+" "+test.path, func() {
				err := open.do()
				var at *fs.PathError
				if !errors.Is(err, regular.ErrNotRegular) || !errors.As(err, &at) || at.Path != test.path || !strings.HasSuffix(err.Error(), test.want) {
					t.Errorf("%s %s: %v, want %q", open.name, test.path, err, test.want)
				}
			})
		}
	}
}

func TestRead(t *testing.T) {
	path := file(t, "0123456789")
	linked := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, linked); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, linked} {
		if data, err := regular.Read(path, 10); err != nil || string(data) != "0123456789" {
			t.Errorf("read %q, %v", data, err)
		}
		if data, err := regular.Read(path, 9); !errors.Is(err, regular.ErrTooLarge) || data != nil {
			t.Errorf("read %q beyond the bound, %v", data, err)
		}
	}
	if _, err := regular.Read(path+"x", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read what is not there: %v", err)
	}
}

// The null device is named for an empty file; opened as a file, it is none.
func TestNullDevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{os.DevNull, link} {
		if data, err := regular.Read(path, 10); err != nil || len(data) != 0 {
			t.Errorf("read %q of %s, %v", data, path, err)
		}
		if data, piped, err := regular.ReadOrPipe(t.Context(), path, 10); err != nil || len(data) != 0 || piped {
			t.Errorf("read %q of %s, a pipe: %v, %v", data, path, piped, err)
		}
		if _, err := regular.Open(path); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("open %s: %v", path, err)
		}
	}
}

func TestReadOrPipe(t *testing.T) {
	if data, _, err := regular.ReadOrPipe(t.Context(), file(t, "word"), 10); err != nil || string(data) != "word" {
		t.Errorf("of a file: %q, %v", data, err)
	}
	path := pipe(t)
	soon(t, "a pipe that nobody writes to", func() {
		if data, _, err := regular.ReadOrPipe(t.Context(), path, 10); !errors.Is(err, regular.ErrEmptyPipe) || data != nil {
			t.Errorf("of a pipe that nobody writes to: %q, %v", data, err)
		}
	})
	soon(t, "a device", func() {
		if _, _, err := regular.ReadOrPipe(t.Context(), "/dev/zero", 10); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("of a device: %v", err)
		}
	})
}

// What a shell makes of <(...): a pipe under /dev/fd, whose writer takes its time.
func TestReadOrPipeOfWriter(t *testing.T) {
	path := pipe(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	go func() {
		time.Sleep(50 * time.Millisecond)
		writer.WriteString("pass")
		time.Sleep(50 * time.Millisecond)
		writer.WriteString("word")
		writer.Close()
	}()
	soon(t, "a pipe with a writer", func() {
		if data, _, err := regular.ReadOrPipe(t.Context(), path, 10); err != nil || string(data) != "password" {
			t.Errorf("of a pipe with a writer: %q, %v", data, err)
		}
	})
}

func TestReadOrPipeEndsWithContext(t *testing.T) {
	path := pipe(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	soon(t, "a pipe whose writer says nothing", func() {
		_, _, err := regular.ReadOrPipe(ctx, path, 10)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has not come to an end") {
			t.Errorf("of a pipe whose writer says nothing: %v", err)
		}
	})
	if _, err := writer.WriteString("more than ten bytes"); err != nil {
		t.Fatal(err)
	}
	writer.Close()
}

func TestReadOrPipeIsBounded(t *testing.T) {
	path := pipe(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("more than ten bytes"); err != nil {
		t.Fatal(err)
	}
	soon(t, "a pipe without an end", func() {
		if _, _, err := regular.ReadOrPipe(t.Context(), path, 10); !errors.Is(err, regular.ErrTooLarge) {
			t.Errorf("of a pipe without an end: %v", err)
		}
	})
}
