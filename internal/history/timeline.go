package history

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// perSecond is how wide a second is, in pixels.
	perSecond = 160
	// mostMarks is how many operations and events are drawn; beyond, only those that tell something.
	mostMarks = 30_000
	// slow is an operation that is always drawn.
	slow = int64(100 * time.Millisecond)
)

// Lane is a row of the timeline: what a program said.
type Lane struct {
	Name  string
	Lines []Said
}

// Said is a line of a log.
type Said struct {
	At   time.Time
	Text string
}

var stamp = regexp.MustCompile(`(?:^time=|"time":"|"ts":")([0-9T:.+Z-]{20,35})`)

// Log makes a lane of a program's log: its decisions, warnings and errors, each line with a time. A log that cannot be read is
// a lane that says so.
func Log(name, path string) Lane {
	lane := Lane{Name: name}
	f, err := os.Open(path)
	if err != nil {
		return Lane{Name: name + " (" + err.Error() + ")"}
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		found := stamp.FindStringSubmatch(line)
		if found == nil || strings.Contains(line, "level=DEBUG") {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, found[1]); err == nil {
			lane.Lines = append(lane.Lines, Said{at, strings.TrimPrefix(line, found[0]+" ")})
		}
	}
	if err := s.Err(); err != nil {
		lane.Name += " (" + err.Error() + ")"
	}
	return lane
}

//go:embed timeline.html
var page string

var timeline = template.Must(template.New("timeline").Parse(page))

// drawing is what the template shows.
type drawing struct {
	Title    string
	Summary  string
	Findings []Finding
	Keys     []string // with a picture of their own
	Width    int
	Ticks    []mark
	Faults   []mark // drawn over all rows
	Rows     []row
	Left     int // marks that are not drawn
}

type row struct {
	Name  string
	Marks []mark
	Lines int // above one another
}

// mark is a time on a row. Left and Width are pixels.
type mark struct {
	Left, Width int
	Line        int
	Class       string
	Text        string
}

func at(ns int64) int { return int(ns * perSecond / int64(time.Second)) }

func (r Report) writeTimeline(path string, logs []Lane) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = cmp.Or(timeline.Execute(w, r.draw(logs)), w.Flush())
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func (r Report) draw(logs []Lane) drawing {
	h, end := r.history, int64(time.Second)
	for _, o := range h.Operations {
		end = max(end, o.Return)
	}
	d := drawing{Title: fmt.Sprintf("History of seed %d, from %s", h.Seed, h.Began.UTC().Format(time.RFC3339)),
		Summary: r.String(), Findings: r.Findings, Width: at(end) + perSecond}
	for s := range end/int64(time.Second) + 1 {
		d.Ticks = append(d.Ticks, mark{Left: at(s * int64(time.Second)), Text: fmt.Sprintf("%ds", s)})
	}
	for _, f := range r.Findings {
		d.Faults = append(d.Faults, mark{at(f.At), 2, 0, "finding", f.String()})
		if f.Key != "" {
			d.Keys = append(d.Keys, f.Key)
		}
	}
	d.Rows = append(d.Rows, faultRow(h, end))
	for _, l := range logs {
		d.Rows = append(d.Rows, logRow(l, h.Began, end))
	}
	few := len(h.Operations) <= mostMarks
	d.Rows = append(d.Rows, clientRows(h, few, d.Keys, &d.Left)...)
	for _, w := range h.Watches {
		d.Rows = append(d.Rows, watchRow(w, few, &d.Left))
	}
	return d
}

func faultRow(h History, end int64) row {
	faults := row{Name: "faults"}
	for _, f := range h.Faults {
		to := f.To
		if to == 0 {
			to = f.From + int64(time.Second)/4
		}
		faults.Marks = append(faults.Marks, mark{at(f.From), at(to - f.From), 0, "fault", fmt.Sprintf("%s, %s to %s", f.Text, clock(f.From), clock(to))})
	}
	for _, r := range h.Resets {
		to := min(r.until(), end)
		faults.Marks = append(faults.Marks, mark{at(r.From), at(to - r.From), 0, "fault", fmt.Sprintf("return to revision %d, %s to %s", r.Keep, clock(r.From), clock(to))})
	}
	return faults.stacked()
}

func logRow(l Lane, began time.Time, end int64) row {
	out := row{Name: l.Name}
	for _, s := range l.Lines {
		since := int64(s.At.Sub(began))
		if since < 0 || since > end {
			continue
		}
		class := "said"
		switch {
		case strings.Contains(s.Text, "decision"):
			class = "decision"
		case strings.Contains(s.Text, "WARN") || strings.Contains(s.Text, "ERROR"):
			class = "warned"
		}
		out.Marks = append(out.Marks, mark{at(since), 8, 0, class, clock(since) + " " + s.Text})
	}
	return out.stacked()
}

func clientRows(h History, few bool, keys []string, left *int) []row {
	byClient := map[int]*row{}
	var numbers []int
	for _, o := range h.Operations {
		class := string(o.Kind)
		if o.Error != "" {
			class = "unknown"
		}
		if slices.Contains(keys, o.Key) {
			class += " accused"
		} else if !few && o.Error == "" && o.Return-o.Call < slow {
			*left++
			continue
		}
		if byClient[o.Client] == nil {
			byClient[o.Client] = &row{Name: fmt.Sprintf("client %d", o.Client)}
			numbers = append(numbers, o.Client)
		}
		r := byClient[o.Client]
		r.Marks = append(r.Marks, mark{at(o.Call), max(2, at(o.Return-o.Call)), 0, class, o.String()})
	}
	slices.Sort(numbers)
	var out []row
	for _, n := range numbers {
		out = append(out, byClient[n].stacked())
	}
	return out
}

func watchRow(w Watch, few bool, left *int) row {
	out := row{Name: w.Name}
	for _, t := range w.Opened {
		out.Marks = append(out.Marks, mark{at(t), 3, 0, "opened", "opened at " + clock(t)})
	}
	for _, g := range w.Gaps {
		out.Marks = append(out.Marks, mark{at(g.At), 6, 0, "fault", fmt.Sprintf("revisions %d to %d were compacted", g.From, g.To-1)})
	}
	for _, e := range w.Events {
		if e.At == 0 || !few {
			*left++
			continue
		}
		out.Marks = append(out.Marks, mark{at(e.At), 2, 0, "event", clock(e.At) + " " + e.String()})
	}
	return out
}

// stacked puts marks that overlap on lines of their own, up to four.
func (r row) stacked() row {
	var ends [4]int
	r.Lines = 1
	for i, m := range r.Marks {
		line := slices.IndexFunc(ends[:], func(end int) bool { return end <= m.Left })
		line = max(line, 0)
		ends[line] = m.Left + m.Width
		r.Marks[i].Line = line
		r.Lines = max(r.Lines, line+1)
	}
	return r
}
