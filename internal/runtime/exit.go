package runtime

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// describeEnd reaps proc and says how it ended.
func (c *Child) describeEnd(proc *process) Exit {
	now := time.Now()
	exit := Exit{At: now, PID: proc.pid, Uptime: now.Sub(proc.since), Asked: proc.asked.Load()}
	status, known := proc.reap()
	how := "it ended, how is not known since an earlier daemon had started it"
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
	if lines := causeLines(readTail(log), known && exit.Signal == ""); len(lines) > 0 {
		exit.Reason += ": " + strings.Join(lines, "; ")
	}
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
	from = max(from, size-most)
	data, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return ""
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
	var byRank [3][]string
	for line := range strings.Lines(log) {
		if text, rank := readLine(strings.TrimSpace(line)); text != "" {
			byRank[rank] = append(byRank[rank], shorten(redact(text)))
		}
	}
	for rank, lines := range byRank {
		if len(lines) > 0 && (rank != rankOther || any) {
			return lines[max(0, len(lines)-causeMost):]
		}
	}
	return nil
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

// readLine takes a line of a log apart. Of a structured line only the message
// and the error are taken: other fields may hold anything.
func readLine(line string) (text string, rank int) {
	if strings.HasPrefix(line, "{") {
		var entry struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg != "" {
			text = entry.Msg
			if entry.Error != "" {
				text += ": " + entry.Error
			}
			return text, levelRank(entry.Level)
		}
	}
	if m := plainLevel.FindStringSubmatch(line); m != nil {
		return m[2], levelRank(m[1])
	}
	if plainFatal.MatchString(line) {
		return line, rankFatal
	}
	return line, rankOther
}

// levelled takes a line of etcd's log apart whose level is warn or above; other
// lines have no text.
func levelled(line string) (text, level string) {
	line = strings.TrimSpace(line)
	var entry struct{ Level, Msg, Error string }
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &entry) == nil {
		level = entry.Level
	} else if m := plainLevel.FindStringSubmatch(line); m != nil {
		level = m[1]
	} else if plainFatal.MatchString(line) {
		level = "fatal"
	}
	switch text, rank := readLine(line); {
	case rank == rankFatal:
		return text, "fatal"
	case rank == rankError:
		return text, "error"
	case level == "warn", level == "W":
		return text, "warn"
	}
	return "", ""
}

func levelRank(level string) int {
	switch level {
	case "fatal", "panic", "dpanic", "C":
		return rankFatal
	case "error", "E":
		return rankError
	}
	return rankOther
}

var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|authorization|credential)s?["']?\s*[:=]\s*["']?)[^\s"',;}]+`),
	regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`),
}

// redact takes values out that look like secrets; etcd does not log any, other
// programs and flags given by people may.
func redact(line string) string {
	line = secrets[0].ReplaceAllString(line, "${1}…")
	return secrets[1].ReplaceAllString(line, "${1}…@")
}

func shorten(line string) string {
	if len(line) <= causeLength {
		return line
	}
	return strings.ToValidUTF8(line[:causeLength], "") + "…"
}
