package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
)

// following is a follower of a file with some content, at whose start that content was read.
func following(t *testing.T, content string) (f *follower, write func(string), log *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "env")
	write = func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(content)
	_, read, own, err := etcdEnvironment(path, false)
	if err != nil {
		t.Fatal(err)
	}
	log = new(bytes.Buffer)
	f = &follower{path: path, log: slog.New(slog.NewTextHandler(log, nil)), kept: "restart it", started: read, own: own, taken: read, last: read}
	return f, write, log
}

func TestCredentialsOfAFileAreTakenOnceTheStoreAnswers(t *testing.T) {
	t.Setenv("S3_SECRET_ACCESS_KEY", "of the pod")
	t.Setenv("S3_REGION", "here")
	f, write, log := following(t, "S3_SECRET_ACCESS_KEY=first\nS3_REGION=there\n")
	var answer error
	tries := 0
	f.renew = func(_ context.Context, set func() func()) error {
		tries++
		undo := set()
		if answer != nil {
			undo()
		}
		return answer
	}
	secretIs := func(want string) {
		t.Helper()
		if got := os.Getenv("S3_SECRET_ACCESS_KEY"); got != want {
			t.Errorf("the secret is %q, want %q", got, want)
		}
	}
	told := func(words ...string) {
		t.Helper()
		got := f.told()
		if len(words) == 0 && len(got) > 0 || len(words) > 0 && len(got) != 1 {
			t.Fatalf("told %v, want %q", got, words)
		}
		for _, w := range words {
			if !strings.Contains(got[0].Sentence, w) {
				t.Errorf("%q is not in %q", w, got[0].Sentence)
			}
		}
	}
	look := func() { t.Helper(); f.look(t.Context()) }

	write("S3_SECRET_ACCESS_KEY=val-2\nS3_REGION=there\n")
	look()
	if tries != 0 {
		t.Error("a file that may still be written was taken")
	}
	look()
	secretIs("val-2")
	told()
	if tries != 1 || !strings.Contains(log.String(), "S3_SECRET_ACCESS_KEY") {
		t.Errorf("%d tries; the log:\n%s", tries, log)
	}

	answer = errors.New("it does not know the key")
	write("S3_SECRET_ACCESS_KEY=third\nS3_REGION=there\n")
	look()
	look()
	secretIs("val-2")
	told("S3_SECRET_ACCESS_KEY", "it does not know the key", "from before stay in use")
	answer = errors.New("it does not know the key, said again")
	f.tried = time.Now().Add(-envAgain)
	look()
	told("it does not know the key.")
	answer = fmt.Errorf("put: %w", blob.ErrForbidden)
	f.tried = time.Now().Add(-envAgain)
	look()
	told("not allowed by the store")
	answer = nil
	look() // too soon
	secretIs("val-2")
	f.tried = time.Now().Add(-envAgain)
	look()
	secretIs("third")
	told()

	write("S3_SECRET_ACCESS_KEY=fourth-and\nits/rest+of=it\n")
	look()
	look()
	secretIs("third")
	told("cannot be read", ":2:")

	write("S3_REGION=there\n")
	look()
	look()
	secretIs("of the pod")
	told()
	write("S3_REGION=elsewhere\nETCD_X=1\n")
	look()
	look()
	told("ETCD_X, S3_REGION in the environment file", "restart it")
	if os.Getenv("S3_REGION") != "there" {
		t.Error("a variable that says where the store is was taken")
	}
	write("S3_REGION=there\nTheRestOfAValue==\n")
	look()
	look()
	told("variables (1) in the environment file")
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	look()
	told("cannot be read")
	for _, word := range []string{"val-2", "third", "fourth", "its/rest", "elsewhere", "TheRest"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log has %q:\n%s", word, log)
		}
	}
}
