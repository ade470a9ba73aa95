package playground

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
)

// facts is what both views follow: which decisions are new, and whether the
// cluster is complete for the first time.
type facts struct {
	news  console.News
	ready bool
}

// complete reports, once, that every wanted voter is up.
func (f *facts) complete(r *console.Report) bool {
	if f.ready || r == nil || r.Observation == nil || r.Observation.Spec == nil {
		return false
	}
	roster, ok := r.Observation.Roster()
	f.ready = ok && len(roster.Up()) == r.Observation.Spec.MemberCount && len(roster.Seats) == r.Observation.Spec.MemberCount
	return f.ready
}

// JSON is the view with one object a line.
type JSON struct {
	mu sync.Mutex // guards what follows
	w  io.Writer
	f  facts
}

// NewJSON writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{w: w} }

type line struct {
	Time        time.Time     `json:"time"`
	Event       string        `json:"event"`
	Text        string        `json:"text,omitempty"`
	Dir         string        `json:"dir,omitempty"`
	Store       string        `json:"store,omitempty"`
	Endpoints   []string      `json:"endpoints,omitempty"`
	Environment []string      `json:"environment,omitempty"`
	Seconds     float64       `json:"seconds,omitempty"`
	Leader      string        `json:"leader,omitempty"`
	Decision    *console.Said `json:"decision,omitempty"`
}

func (v *JSON) write(l line) {
	l.Time = time.Now().UTC()
	if data, err := duration.JSON(l); err == nil {
		_, _ = v.w.Write(append(data, '\n')) // a reader that went away is no error of ours
	}
}

// Begin implements View.
func (v *JSON) Begin(s Scene) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.write(line{Event: "start", Dir: s.Dir, Store: s.Store, Endpoints: s.Access.Etcd.Endpoints, Environment: s.Environment()})
}

// Show implements View.
func (v *JSON) Show(s Scene) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range v.f.news.Of(s.Report) {
		v.write(line{Event: "decision", Leader: string(s.Report.Leader), Text: d.Decision.Reason.String(), Decision: &d})
	}
	if v.f.complete(s.Report) {
		v.write(line{Event: "ready", Seconds: time.Since(s.Started).Seconds(), Endpoints: s.Access.Etcd.Endpoints})
	}
}

// Say implements View.
func (v *JSON) Say(event, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.write(line{Event: event, Text: text})
}

// End implements View.
func (v *JSON) End() { v.Say("end", "everything was ended") }

// Screen is the view for people. On a terminal it draws one picture over the
// other; elsewhere it writes lines.
type Screen struct {
	w        io.Writer
	terminal bool
	size     func() (width, height int)

	mu    sync.Mutex // guards what follows
	f     facts
	said  []string
	frame string
}

// NewScreen writes to w; size is nil where w is no terminal.
func NewScreen(w io.Writer, size func() (width, height int)) *Screen {
	return &Screen{w: w, terminal: size != nil, size: size}
}

// Begin implements View.
func (v *Screen) Begin(s Scene) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.terminal {
		fmt.Fprint(v.w, "\x1b[?1049h\x1b[?25l") // another screen, no cursor
		return
	}
	fmt.Fprintf(v.w, "a cluster of %d in %s\n%s\n", len(s.Hosts), s.Dir, strings.Join(append(reachIt(s, true), whereIs(s)...), "\n"))
}

// Show implements View.
func (v *Screen) Show(s Scene) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range v.f.news.Of(s.Report) {
		v.note(d.At, d.Decision.Rule, d.Decision.Reason.String())
		if a := d.Decision.Action; a != nil && a.Command != "" {
			v.note(d.At, "", "as by: "+a.Command) // it is done: nobody has to type it
		}
		for _, b := range d.Decision.Blockers {
			if b.Sentence.String() != d.Decision.Reason.String() {
				v.note(d.At, "!", b.Sentence.String())
			}
			if b.Advice != "" {
				v.note(d.At, "", b.Advice)
			}
			if b.Command != "" {
				v.note(d.At, "", "→ "+b.Command)
			}
		}
	}
	if v.f.complete(s.Report) {
		v.note(time.Now(), "ready", fmt.Sprintf("%d of %d voters are up after %.1f s", s.Report.Observation.Spec.MemberCount, s.Report.Observation.Spec.MemberCount, time.Since(s.Started).Seconds()))
		if !v.terminal {
			fmt.Fprintln(v.w, strings.Join(hurtIt(s), "\n"))
		}
	}
	if v.terminal {
		v.draw(s)
	}
}

func (v *Screen) note(at time.Time, rule, text string) {
	l := fmt.Sprintf("%s  %-16s %s", at.Local().Format(time.TimeOnly), rule, text)
	if !v.terminal {
		fmt.Fprintln(v.w, l)
		return
	}
	v.said = append(v.said, l)
	v.said = v.said[max(0, len(v.said)-200):]
}

// Say implements View.
func (v *Screen) Say(event, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note(time.Now(), event, text)
}

// End implements View.
func (v *Screen) End() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.terminal {
		fmt.Fprint(v.w, "\x1b[?25h\x1b[?1049l")
	}
	fmt.Fprintln(v.w, "everything was ended")
}

// draw writes the picture if it is another one than the last.
func (v *Screen) draw(s Scene) {
	width, height := v.size()
	frame := picture(s, v.said, width, height)
	if frame == v.frame {
		return
	}
	v.frame = frame
	fmt.Fprint(v.w, "\x1b[H\x1b[J"+strings.ReplaceAll(frame, "\n", "\r\n"))
}

func summary(s Scene) string {
	up := time.Since(s.Started).Round(time.Second)
	switch {
	case s.Report == nil:
		return fmt.Sprintf("no daemon answers   %s", up)
	case s.Report.Observation == nil:
		return fmt.Sprintf("the daemons agree on a leader   %s", up)
	}
	o := s.Report.Observation
	wanted := "nothing asked for"
	if o.Spec != nil {
		wanted = fmt.Sprintf("%s of etcd %s wanted", membersWords(o.Spec.MemberCount), o.Spec.EtcdVersion)
	}
	roster, _ := o.Roster()
	return fmt.Sprintf("%s, %d of %d voters up   daemons led by %s   %s", wanted, len(roster.Up()), len(roster.Voters()), s.Report.Leader, up)
}

// table is a row for each host; a narrow one leaves out what the environment
// says as well.
func table(s Scene, narrow bool) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  HOST\tCLIENT URL\tDAEMON\tETCD\tMEMBER\tROLE\tSTATE")
	var roster cluster.Roster
	var o *cluster.Observation
	if s.Report != nil && s.Report.Observation != nil {
		o = s.Report.Observation
		roster, _ = o.Roster()
	}
	for _, h := range s.Hosts {
		daemon := "down"
		if pid := h.PID(); pid > 0 {
			daemon = fmt.Sprint(pid)
		}
		etcd, member, role, state := "-", "-", "-", "free"
		if r := report(o, h); r != nil && r.Process.PID > 0 {
			etcd = fmt.Sprint(r.Process.PID)
		}
		for _, seat := range roster.Seats {
			if string(seat.HostID) != h.Name {
				continue
			}
			member, role, state = seat.ID.String(), "voter", "healthy"
			if seat.Learner {
				role = "learner"
			} else if seat.RaftLeader {
				role = "leader"
			}
			if !seat.Up {
				state = seat.State()
			}
		}
		client := h.Client
		if narrow {
			_, client, _ = strings.Cut(client, "://")
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Name, client, daemon, etcd, member, role, state)
	}
	t.Flush()
	return b.String()
}

func report(o *cluster.Observation, h *Host) *cluster.HostReport {
	if o == nil {
		return nil
	}
	r, _ := o.Host(cluster.HostID(h.Name))
	return r
}

func membersWords(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
