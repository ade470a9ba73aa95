package say

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Trouble is said when it begins, when its reason is another one, and when it is over: then
// by the words that it was said with.
func TestOnce(t *testing.T) {
	var said bytes.Buffer
	s := NewOnce(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	for _, step := range []struct {
		what string
		err  error
		want string
	}{
		{"cannot list", nil, ""},
		{"cannot list", errors.New("no answer in 2.1s"), `level=WARN msg="cannot list" err="no answer in 2.1s"`},
		{"cannot list", errors.New("no answer in 2.3s"), ""},
		{"not allowed", errors.New("403"), `level=WARN msg="not allowed" err=403`},
		{"cannot list", nil, `level=INFO msg=solved trouble="not allowed"`},
		{"cannot list", nil, ""},
	} {
		said.Reset()
		s.Say("store", step.what, step.err)
		if got := strings.TrimSpace(said.String()); got != step.want {
			t.Errorf("%s, %v: it says %q, want %q", step.what, step.err, got, step.want)
		}
	}
	if !s.News("role", "leads") || s.News("role", "leads") || !s.News("role", "follows") {
		t.Error("what is new on a topic is not")
	}
	if s.Forget("role"); !s.News("role", "follows") {
		t.Error("it is not said anew")
	}
}
