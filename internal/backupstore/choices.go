package backupstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
)

// Environment of how long backups are kept, as the predecessor has it: Go
// durations, plus d and y.
const (
	EnvHourly = "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION"
	EnvDaily  = "ETCD_MANAGER_DAILY_BACKUPS_RETENTION"
)

// Choices are what a person says of how backups are packed, read and kept.
type Choices struct {
	Compression string   // gzip, zstd or none; empty: gzip
	Recipients  []string // age's public keys; none: backups are not encrypted
	// IdentityFile holds age's secret keys, to read encrypted backups. It is
	// read only when one is, so it may be put there for that time.
	IdentityFile string
	KeepLast     int // keep the newest so many, however old
}

// Packing is how backups are written.
type Packing struct {
	Compression backup.Compression
	Recipients  Recipients
}

// Packing reads the choices of packing. Errors repeat no keys.
func (c Choices) Packing() (Packing, error) {
	compression, err := backup.ParseCompression(c.Compression)
	if err != nil {
		return Packing{}, err
	}
	recipients, err := ParseRecipients(c.Recipients)
	return Packing{compression, recipients}, err
}

// Policy is how long backups are kept: the default, as the environment changes
// it, and the newest so many.
func (c Choices) Policy(getenv func(string) string) (backup.Policy, error) {
	p := backup.DefaultPolicy()
	if c.KeepLast < 0 {
		return p, fmt.Errorf("keep the newest %d backups: want a number that is not negative", c.KeepLast)
	}
	p.Last = c.KeepLast
	for _, e := range []struct {
		name  string
		field *time.Duration
	}{{EnvHourly, &p.Hourly}, {EnvDaily, &p.Daily}} {
		text := getenv(e.name)
		if text == "" {
			continue
		}
		keep, err := duration.Parse(text)
		if err != nil {
			return p, fmt.Errorf("%s=%q: %w", e.name, text, err)
		}
		*e.field = keep
	}
	return p, nil
}

// Identities reads the secret keys; none without a file.
func (c Choices) Identities() (Identities, error) { return c.IdentitiesBy(regular.Read) }

// IdentitiesBy is Identities for whoever may read more than a regular file.
func (c Choices) IdentitiesBy(read func(file string, limit int64) ([]byte, error)) (Identities, error) {
	if c.IdentityFile == "" {
		return Identities{}, nil
	}
	data, err := read(c.IdentityFile, regular.SmallSize)
	if err != nil {
		return Identities{}, fmt.Errorf("read the secret keys of backups: %w", err)
	}
	ids, err := ParseIdentities(bytes.NewReader(data))
	if err != nil {
		return ids, fmt.Errorf("read the secret keys of backups in %s: %w", c.IdentityFile, err)
	}
	return ids, nil
}

// Decrypts reports whether encrypted backups can be read now. Errors say why
// not; that there is no file for it is none.
func (c Choices) Decrypts() (bool, error) {
	ids, err := c.Identities()
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return len(ids.keys) > 0, err
}
