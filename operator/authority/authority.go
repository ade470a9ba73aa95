// Package authority makes and keeps the certificates of a cluster: its authorities, once, and the leaves of each host.
//
// What must always hold:
//
//   - An authority that is there is never made again: who has lost it is told so, and rotates.
//   - No leaves are written that do not trust who signed those that are there, of a host that runs, unless these were put back.
//   - A leaf keeps its key when it is renewed, and names the host by DNS names alone: addresses of pods change.
//   - Files are on a temporary file system of this process's own, for as long as internal/pki works on them.
package authority

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
)

// Life of a leaf: a year, renewed after a third of it, so that an operator that is away for months does no harm.
var Life = pki.Lifetime{Duration: 365 * duration.Day, MinTimeLeft: 243 * duration.Day}

// Files are those of a Secret, by their names.
type Files map[string][]byte

// Create makes the three authorities of a cluster, with their keys.
func Create(now time.Time) (Files, error) { return Complete(nil, now) }

// Complete makes those of the three authorities that are not given.
func Complete(given Files, now time.Time) (Files, error) {
	var files Files
	err := within(given, func(dir string) error {
		if _, err := pki.Create(dir, now); err != nil {
			return &plainError{err, dir}
		}
		var err error
		files, err = read(dir)
		return err
	})
	return files, err
}

// plainError is an error without the directory in which files lay for a moment, so that the same one has the same words each time.
type plainError struct {
	err error
	dir string
}

func (e *plainError) Error() string {
	return strings.ReplaceAll(e.err.Error(), e.dir+string(filepath.Separator), "")
}
func (e *plainError) Unwrap() error { return e.err }

// Bundle is what of the authorities' files everybody may have.
func Bundle(authorities Files) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if data, is := authorities[name+".crt"]; is {
			out[name+".crt"] = string(data)
		}
	}
	return out
}

// Host is what a host's leaves certify.
type Host struct {
	Cluster string // as the daemons call it
	Name    string
	DNS     []string // under which other members reach it
	Served  []string // under which clients reach each host
}

// leaf is one of a host's: its files are NAME.crt and NAME.key.
type leaf struct {
	name    string
	of      func(*pki.Authorities) *pki.Authority
	request func(Host) (pki.Request, error)
}

var leaves = []leaf{
	{"daemon", manager, func(h Host) (pki.Request, error) {
		return pki.HostRequest(pki.Identity{Cluster: h.Cluster, Role: pki.RoleHost, ID: h.Name}, h.DNS, Life)
	}},
	// Whoever may run a command in the pod has the host's own key there, with which one could do more than this.
	{"operator", manager, func(h Host) (pki.Request, error) {
		return pki.CallerRequest(pki.Identity{Cluster: h.Cluster, Role: pki.RoleOperator, ID: h.Name}, Life)
	}},
	{"peer", peers, func(h Host) (pki.Request, error) { return pki.PeerRequest(h.Name, nil, h.DNS, Life) }},
	{"server", clients, func(h Host) (pki.Request, error) {
		return pki.ServerRequest(h.Name, nil, append(append([]string{}, h.DNS...), h.Served...), Life)
	}},
	{"client", clients, func(Host) (pki.Request, error) { return pki.ClientRequest("root", Life) }},
}

func manager(a *pki.Authorities) *pki.Authority { return a.Manager }
func peers(a *pki.Authorities) *pki.Authority   { return a.Peers }
func clients(a *pki.Authorities) *pki.Authority { return a.Clients }

// Issue gives the leaves of a host, with what they trust: those that it had where they still serve, and others where they
// are missing or due. The second result is when the first of them is due again. Where the key is lost, leaves that are due
// stay as they are.
//
// Errors: ErrForeign; pki.ErrNoKey where a leaf is missing and the key is lost.
func Issue(authorities, had Files, h Host, now time.Time) (Files, time.Time, error) {
	var files Files
	var due time.Time
	err := within(authorities, func(dir string) error {
		all, err := load(dir, now)
		if err != nil {
			return err
		}
		shown, _, err := signers(dir, all.Clients)
		if err != nil {
			return err
		}
		return within(had, func(out string) error {
			if err := vouch(all, out, now); err != nil {
				return err
			}
			for _, l := range leaves {
				request, err := l.request(h)
				if err != nil {
					return err
				}
				done, err := pki.Ensure(out, pki.Names{CA: l.of(all).Name() + ".crt", Cert: l.name + ".crt", Key: l.name + ".key"}, l.of(all), request, now)
				if done.Overdue != nil && l.of(all).CanIssue() {
					err = errors.Join(err, done.Overdue)
				}
				if err != nil {
					return err
				}
				if l.of(all) == all.Clients {
					if err := os.WriteFile(filepath.Join(out, l.name+".crt"), chained(done.Pair.Leaf(), shown), 0o600); err != nil {
						return err
					}
				}
				at := Life.RenewAt(done.Pair.Leaf())
				switch ends := l.of(all).Ends(); {
				case done.Overdue != nil:
					at = now.Add(duration.Day)
				case !ends.IsZero() && !done.Pair.Leaf().NotAfter.Before(ends): // no other one would last longer
					at = ends
				}
				if due.IsZero() || at.Before(due) {
					due = at
				}
			}
			files, err = read(out)
			return err
		})
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("issue the leaves of %s: %w", h.Name, err)
	}
	return files, due, nil
}

// LeavesEnd is when the first of a host's leaves ends; zero: not known.
func LeavesEnd(files Files) (first time.Time) {
	for _, l := range leaves {
		all, err := pki.ParseCertificates(files[l.name+".crt"])
		if err != nil || len(all) == 0 {
			return time.Time{}
		}
		if end := all[0].NotAfter; first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// within runs do on a directory with the files in it, which is gone afterwards.
func within(files Files, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "pki-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, data := range files {
		if filepath.Base(name) != name {
			return fmt.Errorf("%q is no name of a file", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return do(dir)
}

func read(dir string) (Files, error) {
	files := Files{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(os.DirFS(dir), name)
		return err
	})
	return files, err
}
