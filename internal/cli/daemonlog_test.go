package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/testlog"
)

// refusing is a writer that takes nothing while it is full.
type refusing struct {
	testlog.Lines
	full bool
}

func (r *refusing) Write(p []byte) (int, error) {
	if r.full {
		return 0, errors.New("no room")
	}
	return r.Lines.Write(p)
}

// What tells of lines that were dropped is a line of the log like any other.
func TestDroppedLinesAreToldInTheLogsFormat(t *testing.T) {
	for format, read := range map[string]func(line string) (lines float64){
		"json": func(line string) float64 {
			var said struct{ Lines float64 }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			return said.Lines
		},
		"text": func(line string) float64 {
			if !strings.HasPrefix(line, "time=") || !strings.Contains(line, "level=WARN") || !strings.Contains(line, " lines=2 ") {
				return 0
			}
			return 2
		},
	} {
		w := &refusing{full: true}
		cfg := daemon.Default()
		cfg.LogFormat = format
		log, queue := openLog(cfg, w)
		log.Info("one")
		log.Info("two")
		if !queue.Flush(logFlush) || queue.Dropped() != 2 {
			t.Fatalf("%s: %d dropped", format, queue.Dropped())
		}
		w.full = false
		log.Info("three")
		queue.Flush(logFlush)
		told, rest, _ := strings.Cut(w.String(), "\n")
		if read(told) != 2 || strings.Count(rest, "\n") != 1 || !strings.Contains(rest, "three") {
			t.Errorf("%s: %s", format, w.String())
		}
	}
}
