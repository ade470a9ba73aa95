package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// describeEnd reaps proc and says how it ended.
func (c *Child) describeEnd(proc *process) Exit {
	now := time.Now()
	exit := Exit{At: now, PID: proc.pid, Uptime: now.Sub(proc.since), Asked: proc.asked.Load()}
	status, known := proc.reap()
	how := "it ended; how is unknown, since an earlier daemon had started it"
	if known {
		exit.Known = true
		switch {
		case status.Signaled():
			exit.Signal = unix.SignalName(status.Signal())
			how = "it was ended by " + exit.Signal
			if status.Signal() == unix.SIGKILL && !exit.Asked {
				how += ", which comes from a person or from the kernel when memory is short"
			}
		default:
			exit.Code = status.ExitStatus()
			how = fmt.Sprintf("it ended with status %d", exit.Code)
		}
	}
	exit.Reason = how
	if exit.Asked {
		return exit
	}
	c.mu.Lock()
	log := c.log
	c.mu.Unlock()
	if exit.Signal == "SIGKILL" {
		return exit // whoever is killed says nothing about it
	}
	tail := readTail(log)
	if lines := causeLines(tail, known && exit.Signal == ""); len(lines) > 0 {
		exit.Reason += ": " + strings.Join(lines, "; ")
	}
	exit.Damaged = damageLine(tail)
	return exit
}

// readTail returns the end of what the process has written to its log; empty
// when it cannot be read.
func readTail(log logPosition) string {
	const most = 64 << 10
	f, err := os.Open(log.file)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	size, from := info.Size(), log.start
	if from > size {
		from = 0 // somebody else has shortened the file
	}
	cut := size-most > from
	from = max(from, size-most)
	data, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return ""
	}
	if cut { // the first line is the end of one, of which nobody knows what it is
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return string(data)
}

const (
	causeMost   = 3   // lines
	causeLength = 300 // bytes of each
)

// causeLines picks the lines of a log that look like the cause of its end: the
// last fatal ones; else the last errors; else, where any line is wanted since
// the process ended by itself, the last lines.
func causeLines(log string, any bool) []string {
	for rank, lines := range ranked(log) {
		if len(lines) > 0 && (rank != rankOther || any) {
			return lines[max(0, len(lines)-causeMost):]
		}
	}
	return nil
}

// ranked are the lines of a log as people are shown them, by rank.
func ranked(log string) (byRank [3][]string) {
	for line := range strings.Lines(log) {
		text, level := readLine(strings.TrimSpace(line))
		if text = tell(text); text != "" {
			rank := rankOf(level)
			byRank[rank] = append(byRank[rank], text)
		}
	}
	return byRank
}

// Ranks of log lines.
const (
	rankFatal = iota
	rankError
	rankOther
)

var (
	// etcd before 3.5: "2026-01-02 15:04:05.123456 C | etcdmain: …"
	plainLevel = regexp.MustCompile(`^\d{4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:\.\d+)? ([A-Z]) \| (.*)$`)
	// What the Go runtime and etcd's flag parsing say, and a shell.
	plainFatal = regexp.MustCompile(`^(panic:|fatal error:|error verifying flags|flag provided but not defined|runtime: out of memory)`)
)

// Levels that a line of a log can have; another one is empty.
const (
	levelFatal = "fatal"
	levelError = "error"
	levelWarn  = "warn"
)

func rankOf(level string) int {
	switch level {
	case levelFatal:
		return rankFatal
	case levelError:
		return rankError
	}
	return rankOther
}

// readLine takes a line of a log apart. Of a structured line only the message
// and the error are taken: other fields may hold anything.
func readLine(line string) (text, level string) {
	if strings.HasPrefix(line, "{") {
		return readStructured(line)
	}
	if m := plainLevel.FindStringSubmatch(line); m != nil {
		return m[2], levelOf(m[1])
	}
	if plainFatal.MatchString(line) {
		return line, levelFatal
	}
	return line, ""
}

func readStructured(line string) (text, level string) {
	fields := structured(line)
	if text = fields["msg"]; text != "" && fields["error"] != "" {
		text += ": " + fields["error"]
	}
	return text, levelOf(fields["level"])
}

// structured reads an object field by field, as far as it goes: where the disk is full, or
// a process is killed, the last line breaks off, and it is the one that counts.
func structured(line string) map[string]string {
	fields := map[string]string{}
	d := json.NewDecoder(strings.NewReader(line))
	for _, err := d.Token(); err == nil && d.More(); {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err != nil {
			break
		}
		if err = d.Decode(&value); err != nil {
			break
		}
		var said string
		if json.Unmarshal(value, &said) == nil {
			fields[name.(string)] = said
		}
	}
	return fields
}

func levelOf(said string) string {
	switch said {
	case "fatal", "panic", "dpanic", "C":
		return levelFatal
	case "error", "E":
		return levelError
	case "warn", "W":
		return levelWarn
	}
	return ""
}

// secrets are values that look like one, each behind a group that is kept.
var secrets = func() (all []*regexp.Regexp) {
	const name = `(?:password|passwd|secret|token|authorization|credential)s?\\?["']?\s*[:=]\s*`
	for _, pattern := range []string{
		// What was said without quotes after it is the scheme and all that belongs to it.
		`(?i)(authorizations?\\?["']?\s*[:=]\s*)[^\s"'\\…].*`,
		// A quote within a quoted value has a backslash before it.
		`(?i)(` + name + `\\?")(?:[^"\\]|\\.)+`,
		`(?i)(` + name + `\\?')(?:[^'\\]|\\.)+`,
		`(?i)(\bbearer\s+)[^\s"',;}]+`,
		`(?i)(` + name + `(?:basic\s+)?)[^\s"',;}]+`,
	} {
		all = append(all, regexp.MustCompile(pattern))
	}
	return all
}()

// urlUsers are what a URL has before its host: with any character but quotes in the
// password, and with quotes and no slash.
var urlUsers = []*regexp.Regexp{
	regexp.MustCompile(`(://(?:[^/\s:@]*:)?)[^\s"']*@`),
	regexp.MustCompile(`(://(?:[^/\s:@]*:)?)[^/\s@]*@`),
}

// tell is a line as people are shown it: short, and without values that look like
// secrets and signs that no terminal prints. etcd does not log secrets; other
// programs, and flags given by people, may have them in it.
func tell(line string) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
	for _, s := range secrets {
		line = s.ReplaceAllString(line, "${1}…")
	}
	for _, u := range urlUsers {
		line = u.ReplaceAllString(line, "${1}…@")
	}
	return shorten(strings.TrimSpace(line))
}

func shorten(line string) string {
	if len(line) <= causeLength {
		return line
	}
	return strings.ToValidUTF8(line[:causeLength], "") + "…"
}
