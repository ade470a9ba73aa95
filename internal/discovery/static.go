package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Static is a list of seeds that never changes.
type Static []Seed

// ParseStatic reads a list of "host:port", "host", or either with the host's ID in front, as "ID=host:port". Without a port the
// default is taken. It gives the good entries also with an error, which names each bad one.
func ParseStatic(entries []string, defaultPort int) (Static, error) {
	var seeds []Seed
	var errs []error
	for _, entry := range entries {
		id, address, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			id, address = "", id
		} else if err := checkID(id); err != nil {
			errs = append(errs, fmt.Errorf("seed %q: %w", entry, err))
			continue
		}
		endpoint, err := ParseEndpoint(address, defaultPort)
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %q: %w", entry, err))
			continue
		}
		seeds = append(seeds, Seed{ID: id, Endpoint: endpoint})
	}
	return tidy(seeds), errors.Join(errs...)
}

// Seeds implements Seeds.
func (s Static) Seeds(context.Context) ([]Seed, error) { return slices.Clone(s), nil }
