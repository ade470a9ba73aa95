// Package hostsfile keeps one cluster's block of a hosts file.
//
// The block stands between two marker lines that name the cluster. What holds:
// lines outside of it are never touched, blocks of several clusters live side by
// side and are changed by several daemons without losing one another's, and a
// file that is not understood is left alone and reported. The markers are those
// of etcd-manager, so that its blocks are taken over.
package hostsfile

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The parts of the marker lines around the cluster's name.
const (
	beginHead = "# Begin host entries managed by etcd-manager["
	beginTail = "] - do not edit"
	endHead   = "# End host entries managed by etcd-manager["
	endTail   = "]"
)

// Entry is an address and its names.
type Entry struct {
	Addr  netip.Addr
	Names []string
}

// MalformedError says that a block is not whole. The file was not changed.
type MalformedError struct {
	File    string // empty when the content did not come from a file
	Line    int    // from 1
	Cluster string
	Reason  string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("edit hosts file: %s:%d: the block of cluster %q %s", cmp.Or(e.File, "line"), e.Line, e.Cluster, e.Reason)
}

// Hint says what a person can do about it.
func (e *MalformedError) Hint() string {
	return fmt.Sprintf("remove what is left of the block by hand, with its markers (%q and %q); it is written anew then",
		begin(e.Cluster), end(e.Cluster))
}

// InputError is a name or an address that does not belong into a hosts file.
type InputError struct {
	What string
}

func (e *InputError) Error() string { return "edit hosts file: " + e.What }

// Edit returns the content with the cluster's block replaced in its place, or
// added at the end. Without entries it returns the content without the block.
// Equal entries in any order give equal bytes. The error is a *MalformedError or
// an *InputError.
func Edit(content []byte, cluster string, entries []Entry) ([]byte, error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	block, err := render(cluster, entries)
	if err != nil {
		return nil, err
	}
	from, to, err := find(content, cluster)
	if err != nil {
		return nil, err
	}
	if from == to { // there is none yet
		before := content
		if len(block) > 0 && len(before) > 0 && before[len(before)-1] != '\n' {
			before = append(bytes.Clone(before), '\n')
		}
		return slices.Concat(before, block), nil
	}
	return slices.Concat(content[:from], block, content[to:]), nil
}

// Merge is Edit for entries that are not all there is: what the block holds of other
// names stays, as far as stays says so; nil: all of it. It returns the names that were
// kept so, sorted. A line that is no entry goes, as one of a managed block that nobody
// could use.
func Merge(content []byte, cluster string, entries []Entry, stays func(name string) bool) (after []byte, kept []string, err error) {
	if err := checkCluster(cluster); err != nil {
		return nil, nil, err
	}
	from, to, err := find(content, cluster)
	if err != nil {
		return nil, nil, err
	}
	given := map[string]bool{}
	for _, e := range entries {
		for _, name := range e.Names {
			given[name] = true
		}
	}
	all := slices.Clone(entries)
	for _, e := range parse(content[from:to]) {
		e.Names = slices.DeleteFunc(e.Names, func(name string) bool {
			return given[name] || !isHostName(name) || stays != nil && !stays(name)
		})
		if len(e.Names) > 0 {
			all, kept = append(all, e), append(kept, e.Names...)
		}
	}
	slices.Sort(kept)
	after, err = Edit(content, cluster, all)
	return after, slices.Compact(kept), err
}

// parse is the entries of a block.
func parse(block []byte) (out []Entry) {
	for line := range bytes.Lines(block) {
		text, _, _ := strings.Cut(string(line), "#")
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		if addr, err := netip.ParseAddr(words[0]); err == nil && addr.Zone() == "" {
			out = append(out, Entry{Addr: addr, Names: words[1:]})
		}
	}
	return out
}

func begin(cluster string) string { return beginHead + cluster + beginTail }
func end(cluster string) string   { return endHead + cluster + endTail }

// find returns the bytes that the cluster's block takes up with its markers;
// from == to when there is none.
func find(content []byte, cluster string) (from, to int, err error) {
	malformed := func(line int, reason string) error {
		return &MalformedError{Line: line, Cluster: cluster, Reason: reason}
	}
	offset, number, beganAt := 0, 0, 0
	for line := range bytes.Lines(content) {
		number++
		text := strings.TrimSpace(string(line))
		inside := beganAt > 0 && to == 0
		switch {
		case text == begin(cluster) && inside:
			return 0, 0, malformed(number, fmt.Sprintf("begins here, and has begun in line %d and not ended", beganAt))
		case text == begin(cluster) && to > 0:
			return 0, 0, malformed(number, fmt.Sprintf("begins a second time here, after line %d", beganAt))
		case text == begin(cluster):
			from, beganAt = offset, number
		case text == end(cluster) && !inside:
			return 0, 0, malformed(number, "ends here without having begun")
		case text == end(cluster):
			to = offset + len(line)
		case inside && strings.HasPrefix(text, beginHead):
			return 0, 0, malformed(beganAt, fmt.Sprintf("begins here and has not ended in line %d, where another begins", number))
		}
		offset += len(line)
	}
	if beganAt > 0 && to == 0 {
		return 0, 0, malformed(beganAt, "begins here and never ends")
	}
	return from, to, nil
}

// render writes the block, empty without entries: one line an address, in order.
func render(cluster string, entries []Entry) ([]byte, error) {
	names := map[netip.Addr][]string{}
	for _, e := range entries {
		addr := e.Addr.Unmap()
		if !addr.IsValid() || addr.Zone() != "" {
			return nil, &InputError{What: fmt.Sprintf("%q is not an address for it", e.Addr)}
		}
		if len(e.Names) == 0 {
			return nil, &InputError{What: fmt.Sprintf("there is no name for %s", addr)}
		}
		for _, name := range e.Names {
			if !isHostName(name) {
				return nil, &InputError{What: fmt.Sprintf("%q is not a host name", name)}
			}
		}
		names[addr] = append(names[addr], e.Names...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, begin(cluster))
	addrs := make([]netip.Addr, 0, len(names))
	for addr := range names {
		addrs = append(addrs, addr)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, addr := range addrs {
		slices.Sort(names[addr])
		fmt.Fprintf(&b, "%s\t%s\n", addr, strings.Join(slices.Compact(names[addr]), " "))
	}
	fmt.Fprintln(&b, end(cluster))
	return b.Bytes(), nil
}

// checkCluster refuses a name that would break the marker line, or be read back
// as another.
func checkCluster(name string) error {
	for _, r := range name {
		if r <= ' ' || r == 0x7f || r == '[' || r == ']' {
			return &InputError{What: fmt.Sprintf("%q cannot stand in a marker as a cluster's name", name)}
		}
	}
	if name == "" {
		return &InputError{What: "the cluster has no name"}
	}
	return nil
}

// isHostName accepts what resolvers do, underscore included, and nothing that
// could end the field or the line.
func isHostName(name string) bool {
	if name == "" || len(name) > 253 || name[0] == '-' || name[0] == '.' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}
