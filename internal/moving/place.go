package moving

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
	"etcdadm.io/internal/regular"
)

const (
	// FileName is the file in the state directory of a host that says where the record went. It has secrets.
	FileName = "record-place.json"
	mode     = 0o600
	// format numbers what the file holds. A higher one is a later release's, and is not read.
	format = 1
	// maxFile bounds the file, in bytes: an offer may have a document of a record.
	maxFile = 2 * register.MaxDocument
)

// Place is where the record goes, or went, as one host has it.
type Place struct {
	peer.Offer
	// Taken is when this host took the offer, by its clock.
	Taken time.Time `json:"taken"`
	// Forgot says that this disk went back since: it may have followed once, and have promised what it does not know.
	Forgot bool `json:"forgot,omitempty"`
	// InForce says that this host has seen the record there.
	InForce bool `json:"inForce,omitempty"`
}

// Notes are what a host knows of moves.
type Notes struct {
	Format int `json:"format"`
	// Offer is the place that the record may go to, or have gone to: this host has not seen it. Nil: none.
	Offer *Place `json:"offer,omitempty"`
	// Place is where the record is: what the host was started with says another place. Nil: it counts.
	Place *Place `json:"place,omitempty"`
	// Named is the name of the store that this host joined in. Nil: it was not read, or has none.
	Named *Named `json:"named,omitempty"`
}

// AtHosts tells whether the hosts keep the record at a place.
func (p *Place) AtHosts() bool { return p != nil && p.URL == HostsURL }

// ReadNotes are those of the host with this data directory; none is no error.
func ReadNotes(dataDir string) (Notes, error) {
	return readNotes(filepath.Join(dataDir, "etcdadm", FileName))
}

func readNotes(path string) (n Notes, err error) {
	data, err := regular.Read(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case err != nil:
		return n, fmt.Errorf("read where the record went: %w", err)
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("read where the record went: %s cannot be understood", path) // no word of its content, which is secret
	}
	if n.Format != format {
		return n, fmt.Errorf("read where the record went: %s is of format %d, and this release reads %d", path, n.Format, format)
	}
	return n, nil
}

// File is the file of one host, and is changed by its daemon alone.
type File struct {
	path string
	on   Medium

	mu    sync.Mutex
	notes Notes // guarded by mu; what it points to is never changed
}

// Medium is what the file lies on.
type Medium interface {
	// Replace replaces a file as a whole, and makes it durable. After an error the former content may be there, or the new one.
	Replace(path string, data []byte, mode fs.FileMode) error
}

// OpenFile reads the file of a state directory.
func OpenFile(stateDir string) (*File, error) {
	path := filepath.Join(stateDir, FileName)
	n, err := readNotes(path)
	return &File{path: path, on: durable.OS(), notes: n}, err
}

// Notes are what the file says.
func (f *File) Notes() Notes {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notes
}

// errUnchanged: what is wanted is there, and nothing is written.
var errUnchanged = errors.New("unchanged")

// change writes what do makes of the notes, and is done once that is durable.
func (f *File) change(do func(*Notes) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.notes
	switch err := do(&next); {
	case errors.Is(err, errUnchanged):
		return nil
	case err != nil:
		return err
	}
	next.Format = format
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := f.on.Replace(f.path, data, mode); err != nil {
		return fmt.Errorf("write where the record goes: %w", err)
	}
	f.notes = next
	return nil
}

// ErrLateOffer says that a later move was offered already.
var ErrLateOffer = errors.New("another move began after this one")

// take keeps an offer.
func (f *File) take(p Place) error {
	return f.change(func(n *Notes) error {
		switch {
		case n.Place != nil && n.Place.AtHosts() == p.AtHosts():
			return fmt.Errorf("this host has followed the record to %s already", n.Place.URL)
		case n.Offer != nil && n.Offer.From == p.From && n.Offer.At > p.At:
			return ErrLateOffer
		}
		n.Offer = &p
		return nil
	})
}

// Forget notes that this disk went back, in an offer that is open: it takes no seat of that.
func (f *File) Forget() error {
	if o := f.Notes().Offer; o == nil || o.Forgot {
		return nil
	}
	return f.change(func(n *Notes) error {
		if n.Offer != nil {
			o := *n.Offer
			o.Forgot = true
			n.Offer = &o
		}
		return nil
	})
}

// follow has the host be where it was offered to be. Where it is there already nothing is changed.
func (f *File) follow(name string, inForce bool) error {
	return f.change(func(n *Notes) error {
		switch {
		case n.Offer == nil && n.Place != nil && n.Place.Name == name:
			return errUnchanged
		case n.Offer == nil || n.Offer.Name != name:
			return errors.New("another move was offered meanwhile")
		}
		place := *n.Offer
		place.InForce, place.First = inForce, nil // its keepers have it
		n.Place, n.Offer = &place, nil
		return nil
	})
}

// Followed has the host be where it was offered to be, and the record was brought.
func (f *File) Followed(name string) error { return f.follow(name, true) }

// arrive notes that the record was seen there.
func (f *File) arrive() error {
	return f.change(func(n *Notes) error {
		place := *n.Place
		place.InForce = true
		n.Place = &place
		return nil
	})
}

// drop forgets an offer that comes to nothing.
func (f *File) drop(name string) error {
	return f.change(func(n *Notes) error {
		if n.Offer == nil || n.Offer.Name != name {
			return errUnchanged
		}
		n.Offer = nil
		return nil
	})
}
