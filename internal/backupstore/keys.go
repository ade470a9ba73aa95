package backupstore

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// Recipients are age's public keys that snapshots are encrypted to. The zero
// value means that they are not.
type Recipients struct {
	keys  []age.Recipient
	names []string
}

// ParseRecipients reads public keys as age-keygen prints them: age1… of X25519
// or of the post-quantum hybrid, all of one kind.
func ParseRecipients(keys []string) (Recipients, error) {
	var r Recipients
	for _, k := range keys {
		k = strings.TrimSpace(k)
		parsed, err := age.ParseRecipients(strings.NewReader(k))
		if err != nil || len(parsed) != 1 {
			// What was given is not repeated: it may be the secret half.
			return Recipients{}, errors.New("parse recipient: not a public key of age; they begin with age1")
		}
		r.keys, r.names = append(r.keys, parsed[0]), append(r.names, k)
	}
	if len(r.keys) == 0 {
		return r, nil
	}
	if _, err := age.Encrypt(io.Discard, r.keys...); err != nil {
		return Recipients{}, fmt.Errorf("parse recipients: %w", err)
	}
	return r, nil
}

// Identities are age's secret keys. Hosts have none: they are needed only to
// read an encrypted backup.
type Identities struct {
	keys []age.Identity
}

// ParseIdentities reads secret keys as age-keygen writes them into a file.
// Errors repeat nothing of it.
func ParseIdentities(file io.Reader) (Identities, error) {
	keys, err := age.ParseIdentities(file)
	if err != nil {
		return Identities{}, errors.New("parse identities: not a file of age's secret keys; they begin with AGE-SECRET-KEY-")
	}
	return Identities{keys}, nil
}
