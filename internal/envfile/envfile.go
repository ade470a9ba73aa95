// Package envfile reads files of KEY=VALUE lines, and chooses from an
// environment what is passed on to the etcd process.
//
// What holds: a value reaches etcd as it was written, quotes and all, and no
// variable that decides which cluster a member is in, where its data lies,
// whether what it acknowledged is on disk, or who can reach it in quarantine
// gets through (SAFETY 24). Values may be secrets, so no error shows one.
package envfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"etcdadm.io/internal/regular"
)

// maxLine bounds a line, in bytes; Linux accepts 128 KiB for one variable.
const maxLine = 128 << 10

// Variable is one line of a file.
type Variable struct {
	Name, Value string
}

// String is NAME=VALUE, as os/exec takes it.
func (v Variable) String() string { return v.Name + "=" + v.Value }

// SyntaxError names the line that cannot be read, without its value.
type SyntaxError struct {
	File   string // empty when it was not read from a file
	Line   int    // from 1
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("read environment: line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("read environment: %s:%d: %s", e.File, e.Line, e.Reason)
}

// Hint says what a person can do about it.
func (e *SyntaxError) Hint() string {
	return "write one NAME=VALUE a line, without \"export\" and without quotes; lines that begin with # are comments"
}

// Read reads the file at path, which has to be one, or the null device; see Parse. Errors wrap those of
// package os, or are a *SyntaxError.
func Read(path string) ([]Variable, error) {
	data, err := regular.Read(path, regular.SmallSize)
	if err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	variables, err := Parse(bytes.NewReader(data))
	if syntax, ok := errors.AsType[*SyntaxError](err); ok {
		syntax.File = path
	}
	return variables, err
}

// Parse reads NAME=VALUE lines. Blank lines and lines whose first character is
// # are skipped; white space around a name or a value is not part of it. A value is
// taken as it stands otherwise: quotes, # and $ have no meaning in it. A name
// that stands twice keeps its first place and its last value. The error is a
// *SyntaxError or wraps the reader's.
func Parse(r io.Reader) ([]Variable, error) {
	var variables []Variable
	place := map[string]int{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	number := 0
	for scanner.Scan() {
		number++
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		v, reason := parseLine(line)
		if reason != "" {
			return nil, &SyntaxError{Line: number, Reason: reason}
		}
		if at, seen := place[v.Name]; seen {
			variables[at] = v
			continue
		}
		place[v.Name] = len(variables)
		variables = append(variables, v)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &SyntaxError{Line: number + 1, Reason: fmt.Sprintf("the line is longer than %d bytes", maxLine)}
	case err != nil:
		return nil, fmt.Errorf("read environment: %w", err)
	}
	return variables, nil
}

// parseLine splits a line; reason says why it cannot.
func parseLine(line string) (v Variable, reason string) {
	name, value, found := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !found:
		return v, "there is no = in it"
	case name == "":
		return v, "there is no name before the ="
	case !isName(name):
		// It is not repeated: where a line was broken, it is a part of a value.
		return v, "what is before the = is not the name of a variable: letters, digits and _ make one, and no digit begins it"
	case strings.ContainsRune(value, 0):
		return v, fmt.Sprintf("the value of %s has a NUL byte", name)
	}
	return Variable{Name: name, Value: value}, ""
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
