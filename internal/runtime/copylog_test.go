package runtime

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each whole line is copied once, also where the log is rotated under the member that writes to it.
func TestCopyLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("of an earlier daemon\n")
	var out bytes.Buffer
	c := CopyLog(path, &out)
	var want strings.Builder
	next := func() {
		t.Helper()
		if err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	next()
	write("one\ntw")
	next()
	write("o\n")
	next()
	want.WriteString("one\ntwo\n")
	for n := range 40000 {
		line := fmt.Sprintf("line %d of many, so that the head of the log is cut off\n", n)
		write(line)
		want.WriteString(line)
	}
	next()
	if _, err := rotateOpen(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	write("after the cut\n")
	want.WriteString("after the cut\n")
	next()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	next()
	write("a new file\n")
	want.WriteString("a new file\n")
	next()
	if out.String() != want.String() {
		t.Errorf("%d bytes were copied, want %d; the end is %q", out.Len(), want.Len(), out.String()[max(0, out.Len()-200):])
	}
}
