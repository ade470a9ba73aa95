package open_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/blob/open"
)

// An opening that a mount held up has the environment of its time: one that is to have
// another one does not join it, and few of them are left waiting.
func TestOpeningAnewJoinsNone(t *testing.T) {
	dir := t.TempDir()
	still, named := filepath.Join(dir, "still"), filepath.Join(dir, "config")
	if err := syscall.Mkfifo(still, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(named, []byte("[default]\nca_bundle = "+still+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_CONFIG_FILE": named, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_CA_BUNDLE": "", "AWS_PROFILE": "", "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": "k", "S3_SECRET_ACCESS_KEY": "s", "S3_ENDPOINT": "http://127.0.0.1:1"} {
		t.Setenv(name, value)
	}
	try := func(number uint64, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := open.Open(ctx, "s3://anew/folder", open.Options{Anew: number})
		return err
	}
	if err := try(1, 250*time.Millisecond); err == nil {
		t.Fatal("nothing stood still")
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	if err := try(2, 20*time.Second); err != nil {
		t.Errorf("another opening waits for the one that stands still: %v", err)
	}
	t.Setenv("AWS_CONFIG_FILE", named)
	for number := range uint64(20) {
		if err := try(3+number, 50*time.Millisecond); err == nil {
			t.Error("nothing stood still")
		}
	}
	began := time.Now()
	if err := try(100, time.Minute); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("one more waits as well: %v after %s", err, time.Since(began))
	}
	for ended := time.Now().Add(20 * time.Second); time.Now().Before(ended); { // lets those go that wait
		w, err := os.OpenFile(still, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			break // nobody reads
		}
		w.Close()
		time.Sleep(20 * time.Millisecond)
	}
}
