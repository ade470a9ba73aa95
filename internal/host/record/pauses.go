package record

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// PauseFile lies in the state directory, and not in the state: an earlier release passes it
// over, and would not start its member on a state with what it does not know.
const PauseFile = "paused.json"

// Files keep small files of a host durably, beside its state.
type Files interface {
	// ReadRecord returns nothing, and no error, where there is none.
	ReadRecord(name string) ([]byte, error)
	WriteRecord(name string, data []byte) error
}

// Pauses are those that the host was granted. They are durable before they are told
// (docs/adr/039-a-pause-is-a-permission.md).
type Pauses struct {
	host  cluster.HostID
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	held    []held
	counts  bool // the start of the daemon is not written down yet
	refused *cluster.PauseRefused
	at      time.Time // of the refusal
}

// held is a pause of the host. Its time is counted by the host, and nobody's clock ends it early.
type held struct {
	cluster.Pause
	Generation uint64    `json:"generation"` // in which it was granted
	Starts     int       `json:"starts"`     // of the daemon since then, at which its time began anew
	At         time.Time `json:"at"`         // when its time began
	since      time.Time // likewise, with the monotonic clock
}

// pauseFile is the layout of PauseFile.
type pauseFile struct {
	Pauses []held `json:"pauses"`
}

const (
	// renewals is how many starts of the daemon have the time of a pause begin anew. A reboot
	// may set the wall clock to anything; without an end a daemon that dies again and again
	// would hold up all work on the others for ever.
	renewals = 3
	// refusalTold is how long a pause that could not be taken is told of; then it is tried again.
	refusalTold = 30 * time.Second
	// unreadID, and the host, is the pause of a host that cannot read which it has.
	unreadID = "unreadable-on-"
)

// NewPauses has none. Files are nil where the host takes no pauses.
func NewPauses(host cluster.HostID, files Files, log *slog.Logger) *Pauses {
	return &Pauses{host: host, files: files, log: log}
}

// Load reads the pauses at the daemon's start. What cannot be read may be any pause, and
// counts as the longest.
func (p *Pauses) Load() {
	if p.files == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var f pauseFile
	data, err := p.files.ReadRecord(PauseFile)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &f)
	}
	now := time.Now()
	if err != nil {
		p.log.Error("cannot read which pauses this host was granted: it counts as paused", "err", err, "hint", "etcdadm host resume "+string(p.host))
		f.Pauses = []held{{Pause: cluster.Pause{ID: unreadID + string(p.host), Host: p.host, For: cluster.MaxPause, Reason: PauseFile + " cannot be read"}, Generation: 1 << 62, Starts: renewals, At: now}}
	}
	for i := range f.Pauses {
		h := &f.Pauses[i]
		h.since = now
		if h.Starts < renewals {
			h.Starts, h.At = h.Starts+1, now
		} else if passed := now.Sub(h.At); passed > 0 {
			h.since = now.Add(-passed)
		}
	}
	p.held, p.counts = f.Pauses, len(f.Pauses) > 0 && err == nil
}

// Began writes down that the daemon started within a pause, once it is known that the disk is this daemon's.
func (p *Pauses) Began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.counts {
		return
	}
	p.counts = false
	if err := p.write(p.held); err != nil {
		p.log.Warn("cannot write down that the daemon started within a pause", "err", err)
	}
}

// Takes reports whether the host takes pauses.
func (p *Pauses) Takes() bool { return p.files != nil }

// Now are the pauses that are not over, of a host that runs nothing of a later generation.
func (p *Pauses) Now(generation uint64) (out []cluster.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.held {
		if time.Since(h.since) < h.For && generation <= h.Generation {
			out = append(out, h.Pause)
		}
	}
	return out
}

// Refused is a pause that could not be taken a moment ago; nil: none.
func (p *Pauses) Refused() *cluster.PauseRefused {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil || time.Since(p.at) > refusalTold {
		return nil
	}
	r := *p.refused
	return &r
}

// Refuse notes that a pause could not be taken, so that it is not tried again and again before
// everything else. An op of another kind is none of this.
func (p *Pauses) Refuse(op cluster.Op, why string) {
	if op.Kind != cluster.OpPause || op.Pause == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused, p.at = &cluster.PauseRefused{ID: op.Pause.ID, Why: why}, time.Now()
}

// Take writes a pause of this host down, and drops those that are over.
func (p *Pauses) Take(op cluster.Op, generation uint64) error {
	of := op.Pause
	if of == nil || of.Host != p.host || of.ID == "" || of.For <= 0 || of.For > cluster.MaxPause {
		return fmt.Errorf("the op has no pause of host %s", p.host)
	}
	err := p.grant(*of, generation)
	if err != nil {
		p.Refuse(op, err.Error())
	}
	return err
}

func (p *Pauses) grant(of cluster.Pause, generation uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files == nil {
		return fmt.Errorf("host %s takes no pauses", p.host)
	}
	now := time.Now()
	left := p.rest(func(h held) bool { return h.ID != of.ID && now.Sub(h.since) < h.For })
	return p.keep(append(left, held{Pause: of, Generation: generation, At: now.UTC().Round(0), since: now}))
}

// End drops the pauses that were ended.
func (p *Pauses) End(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.rest(func(h held) bool { return !slices.Contains(ids, h.ID) })
	if len(left) == len(p.held) {
		return
	}
	if err := p.keep(left); err != nil {
		p.log.Warn("cannot write down that a pause of this host was ended", "err", err) // told again with the next look
	}
}

// rest are those that are kept; the caller holds the mutex.
func (p *Pauses) rest(kept func(held) bool) []held {
	return slices.DeleteFunc(slices.Clone(p.held), func(h held) bool { return !kept(h) })
}

// keep has these and no others, durably; the caller holds the mutex.
func (p *Pauses) keep(all []held) error {
	if err := p.write(all); err != nil {
		return fmt.Errorf("write down the pauses of host %s: %w", p.host, err)
	}
	p.held = all
	return nil
}

func (p *Pauses) write(all []held) error {
	data, err := json.MarshalIndent(pauseFile{all}, "", "  ")
	if err != nil {
		return err
	}
	return p.files.WriteRecord(PauseFile, append(data, '\n'))
}
