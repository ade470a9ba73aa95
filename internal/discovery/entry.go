package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxEntry is the size in bytes beyond which a file or an object is nobody's entry.
	maxEntry = 64 << 10
	// maxEndpoints is how many endpoints of one host are looked at.
	maxEndpoints = 32
	// maxID is the length of a host ID in bytes, so that it fits into a file name in whatever way it is written there.
	maxID = 80
)

// entry is what a host says about itself in a directory or a store. The first two keys are the predecessor's format, which
// tools beside us read and write; the third is ours, and is written only into stores.
type entry struct {
	ID        string          `json:"id"`
	Endpoints []entryEndpoint `json:"endpoints"`
	Time      *time.Time      `json:"timestamp,omitempty"`
}

type entryEndpoint struct {
	IP   string `json:"ip"` // or a host name
	Port int    `json:"port"`
}

// parseEntry reads the entry that was found under a name. It gives the good endpoints also with an error. The time is zero if the
// entry carries none.
func parseEntry(name string, data []byte, defaultPort int) (seeds []Seed, at time.Time, err error) {
	var e entry
	if len(data) == 0 {
		return nil, at, errors.New("it is empty, perhaps half written")
	}
	if err := json.Unmarshal(data, &e); err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, at, errors.New("it is not JSON, or half written")
		}
		return nil, at, errors.New("it is not of the form {\"id\":…,\"endpoints\":[{\"ip\":…,\"port\":…}]}")
	}
	want, err := idOf(name)
	if err != nil {
		return nil, at, err
	}
	e.ID = cmp.Or(e.ID, want)
	if e.ID != want {
		return nil, at, fmt.Errorf("it says that it is host %.100q, whose entry would be named %.300q", e.ID, nameOf(e.ID))
	}
	if e.Time != nil {
		at = *e.Time
	}
	var errs []error
	if len(e.Endpoints) == 0 {
		errs = append(errs, errors.New("it names no endpoint"))
	}
	if len(e.Endpoints) > maxEndpoints {
		errs = append(errs, fmt.Errorf("it names %d endpoints, of which the first %d are used", len(e.Endpoints), maxEndpoints))
		e.Endpoints = e.Endpoints[:maxEndpoints]
	}
	for _, ep := range e.Endpoints {
		ep.Port = cmp.Or(ep.Port, defaultPort)
		joined, err := endpoint(ep.IP, ep.Port)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seeds = append(seeds, Seed{ID: e.ID, Endpoint: joined})
	}
	return seeds, at, errors.Join(errs...)
}

// formatEntry is the inverse of parseEntry for one endpoint. A zero time is left out.
func formatEntry(self Seed, at time.Time) ([]byte, error) {
	if err := checkID(self.ID); err != nil {
		return nil, err
	}
	checked, err := ParseEndpoint(self.Endpoint, 0)
	if err != nil {
		return nil, err
	}
	host, portText, err := net.SplitHostPort(checked)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	e := entry{ID: self.ID, Endpoints: []entryEndpoint{{IP: host, Port: port}}}
	if !at.IsZero() {
		at = at.UTC().Truncate(time.Second)
		e.Time = &at
	}
	return json.Marshal(e)
}

// checkID tells whether an ID can name an entry.
func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the host ID is empty")
	case len(id) > maxID:
		return fmt.Errorf("the host ID %.40q… is longer than %d bytes", id, maxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("the host ID %q is not UTF-8", id)
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fmt.Errorf("the host ID %q has a control character", id)
	}
	return nil
}

// nameOf gives the file name of a host's entry: its ID, with whatever a file name cannot hold, and a leading dot, as %XX.
func nameOf(id string) string {
	name := url.PathEscape(id)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// idOf is the inverse of nameOf.
func idOf(name string) (string, error) {
	id, err := url.PathUnescape(name)
	if err != nil || nameOf(id) != name {
		// Names that nameOf does not give are taken as they are: a tool beside us may escape nothing.
		id = name
	}
	return id, checkID(id)
}
