package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"golang.org/x/term"
)

const (
	// watchPause is between two looks, and watchWithin bounds one.
	watchPause  = time.Second
	watchWithin = 5 * time.Second
)

// watch shows the status until a person ends it: on a terminal as a picture that changes,
// elsewhere as a line for each decision that is new.
func (r *reach) watch(ctx context.Context, in *os.File, out io.Writer) error {
	c, err := r.open()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, isFile := out.(*os.File)
	switch {
	case r.output != "table":
		v := jsonWatch{w: out}
		if r.output != "json" {
			return usage("--output=json has one object a line", "--watch writes no %s", r.output)
		}
		console.Watch(ctx, watchPause, watchWithin, c.Status, v.show)
	case isFile && term.IsTerminal(int(file.Fd())):
		s := screen{w: out, size: terminalSize(), by: r}
		defer s.begin(in, cancel)()
		console.Watch(ctx, watchPause, watchWithin, c.Status, s.show)
	default:
		v := lines{w: out, by: r}
		console.Watch(ctx, watchPause, watchWithin, c.Status, v.show)
	}
	return nil // it ends when a person ends it
}

// lines tell each new decision in a line, and whether a daemon answers when that changes.
type lines struct {
	w      io.Writer
	by     *reach
	news   console.News
	failed string
}

func (v *lines) show(r console.Report, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != v.failed {
		v.failed = why
		fmt.Fprintf(v.w, "%s  %s\n", time.Now().Format(time.TimeOnly), cmp.Or(why, "daemons answer again"))
	}
	for _, s := range v.news.Of(&r) {
		for _, line := range saidLines(v.by, s) {
			fmt.Fprintln(v.w, line)
		}
	}
}

// saidLines are a decision as it was said, with what blocks.
func saidLines(by *reach, s console.Said) []string {
	at := s.At.Local().Format(time.TimeOnly)
	d := by.pasteable(s.Decision)
	out := []string{fmt.Sprintf("%s  %-16s %s", at, d.Rule, d.Reason)}
	for _, b := range d.Blockers {
		if b.Sentence.String() != d.Reason.String() {
			out = append(out, fmt.Sprintf("%s  ! %-14s %s", at, b.Code, b.Sentence))
		}
		if b.Command != "" {
			out = append(out, fmt.Sprintf("%s    → %s", at, b.Command))
		}
	}
	return out
}

// jsonWatch writes an object a line, whenever something is another.
type jsonWatch struct {
	w    io.Writer
	last []byte
}

func (v *jsonWatch) show(r console.Report, err error) {
	var told any = statusJSON{r.Healthy(), r.Health(), r}
	if err != nil {
		told = map[string]string{"error": err.Error()}
	}
	var line bytes.Buffer
	data, failed := duration.JSON(told)
	if failed != nil || json.Compact(&line, data) != nil {
		return
	}
	r.At = time.Time{} // which is another one each time
	if err == nil {
		if data, failed = duration.JSON(r); failed != nil {
			return
		}
	}
	if bytes.Equal(data, v.last) {
		return
	}
	v.last = data
	_, _ = v.w.Write(append(line.Bytes(), '\n')) // a reader that went away is no error of ours
}

// screen draws one picture over the other.
type screen struct {
	w    io.Writer
	size func() (width, height int)
	by   *reach

	news  console.News
	said  []string
	last  *console.Report
	frame string
}

// keptSaid bounds the lines of decisions that a screen has below the status.
const keptSaid = 200

// begin takes the terminal, and calls end when a person types q or Ctrl-C there. What it
// returns gives the terminal back.
func (s *screen) begin(in *os.File, end func()) (back func()) {
	fmt.Fprint(s.w, "\x1b[?1049h\x1b[?25l") // another screen, no cursor
	restore := func() {}
	if was, err := term.MakeRaw(int(in.Fd())); err == nil { // else it is no terminal, and Ctrl-C is a signal
		restore = func() { _ = term.Restore(int(in.Fd()), was) }
		go untilQuit(in, end) // nothing calls off the reading of a terminal: it ends with the program
	}
	return func() {
		restore()
		fmt.Fprint(s.w, "\x1b[?25h\x1b[?1049l")
	}
}

// untilQuit calls end when it reads q, Ctrl-C or Ctrl-D, or at an end of the input.
func untilQuit(in io.Reader, end func()) {
	key := make([]byte, 1)
	for {
		if n, err := in.Read(key); err != nil || n == 1 && slices.Contains([]byte{'q', 'Q', 3, 4}, key[0]) {
			end()
			return
		}
	}
}

func (s *screen) show(r console.Report, err error) {
	for _, one := range s.news.Of(&r) {
		s.said = append(s.said, saidLines(s.by, one)...)
	}
	s.said = s.said[max(0, len(s.said)-keptSaid):]
	if err == nil {
		r = s.by.pasteableReport(r)
		s.last = &r
	}
	width, height := s.size()
	frame := picture(s.last, err, s.said, width, height)
	if frame == s.frame {
		return
	}
	s.frame = frame
	fmt.Fprint(s.w, "\x1b[H\x1b[J"+strings.ReplaceAll(frame, "\n", "\r\n"))
}

// picture is the newest status, as much of it as there is room for, with the last decisions
// below; last is nil before the first answer.
func picture(last *console.Report, failed error, said []string, width, height int) string {
	var b strings.Builder
	if failed != nil {
		fmt.Fprintf(&b, "! %s\n", strings.ReplaceAll(failed.Error(), "\n", " "))
		if last != nil {
			fmt.Fprintf(&b, "  below is how it was at %s\n", last.Now().Local().Format(time.TimeOnly))
		}
	}
	if last != nil {
		printReport(&b, *last)
	}
	top := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	room := max(0, height-2) // the last two lines say how it ends
	if len(top) > room && room > 1 {
		top[room-1] = "…"
	}
	top = top[:min(len(top), room)]
	if left := room - len(top) - 1; left > 0 && len(said) > 0 {
		top = append(append(top, ""), said[max(0, len(said)-left):]...)
	}
	for len(top) < room+1 {
		top = append(top, "")
	}
	top = append(top, "q ends this")
	for i := range top {
		top[i] = cutTo(top[i], width)
	}
	return strings.Join(top, "\n")
}

// cutTo is a line of so many characters at most.
func cutTo(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:max(0, width-1)]) + "…"
	}
	return line
}
