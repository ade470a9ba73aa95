package certs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
)

// recordFormat is the version of what is kept of an issued certificate.
const recordFormat = 1

// record is what is kept of one certificate that was issued. It holds no secret.
type record struct {
	Format     int    `json:"format"`
	For        string `json:"for"`
	CommonName string `json:"commonName"`
	Dir        string `json:"dir"`
	Files      files  `json:"files"`
	// Duration and MinTimeLeft are in nanoseconds, as pki.Lifetime has them.
	Duration    time.Duration `json:"duration"`
	MinTimeLeft time.Duration `json:"minTimeLeft"`
	// Fingerprint is empty until the certificate is there for the first time.
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotBefore   time.Time `json:"notBefore,omitzero"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
	// Trusted are the fingerprints of the CA file's certificates, as they were written.
	Trusted []string `json:"trusted,omitempty"`
}

// files are pki.Names, below Dir.
type files struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

func (r record) names() pki.Names { return pki.Names(r.Files) }
func (r record) certFile() string { return filepath.Join(r.Dir, r.Files.Cert) }
func (r record) keyFile() string  { return filepath.Join(r.Dir, r.Files.Key) }
func (r record) caFile() string   { return filepath.Join(r.Dir, r.Files.CA) }

func (r record) lifetime() pki.Lifetime {
	return pki.Lifetime{Duration: r.Duration, MinTimeLeft: r.MinTimeLeft}
}

// RecordDir has a file for each certificate that was issued, so that two commands never write the same one for
// different certificates.
func (h Host) RecordDir() string { return h.at("etc/etcdadm/issued") }

func (h Host) recordFile(certFile string) string {
	sum := sha256.Sum256([]byte(certFile))
	return filepath.Join(h.RecordDir(), strings.TrimSuffix(filepath.Base(certFile), ".crt")+"-"+hex.EncodeToString(sum[:4])+".json")
}

// broken is a record that cannot be read: the certificate that it is about is not known.
type broken struct {
	path string
	err  error
}

// records are those of everything that was issued here, by the names of their files.
func (h Host) records() (out []record, damaged []broken, err error) {
	entries, err := os.ReadDir(h.RecordDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &Error{Problem: "read what was issued here", Err: err, Advice: "run it as root"}
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		path := filepath.Join(h.RecordDir(), e.Name())
		r, err := readRecord(path)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, nil, err
		case err != nil:
			damaged = append(damaged, broken{path, err})
		default:
			out = append(out, r)
		}
	}
	return out, damaged, nil
}

// readRecord fails with fs.ErrNotExist where nothing was recorded.
func readRecord(path string) (r record, err error) {
	data, err := regular.Read(path, regular.SmallSize)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, err
	case errors.Is(err, fs.ErrPermission):
		return r, &Error{Problem: "read " + path, Err: err, Advice: "run it as root"}
	case err == nil && r.Format > recordFormat:
		return r, &Error{Problem: fmt.Sprintf("%s has format %d, and this etcdadm reads up to %d", path, r.Format, recordFormat), Advice: "use the newer etcdadm that wrote it"}
	case err != nil:
		return r, &Error{Problem: "read " + path, Err: err, Advice: "move it away; the certificate that it is about stays"}
	}
	return r, nil
}

func (h Host) keep(r record) error {
	r.Format = recordFormat
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.MakeDir(h.RecordDir(), 0o755); err != nil {
		return &Error{Problem: "make " + h.RecordDir(), Err: err, Advice: "run it as root"}
	}
	path := h.recordFile(r.certFile())
	if err := durable.Replace(path, append(data, '\n'), 0o600); err != nil {
		return &Error{Problem: "write " + path, Err: err}
	}
	return nil
}
