// Package token is about the words by which a fresh host proves that it may join a cluster: ID.SECRET, which a
// person carries from one host to the other. It makes, reads and judges them, and keeps nothing.
//
// What must always hold:
//
//   - A record holds the SHA-256 of a secret and never the secret, which is shown once, to who made it.
//   - Secrets are compared in constant time. Whether a token is known, its ID says, which is no secret.
//   - No error shows a secret.
//   - What a token lets its bearer have is sealed by who made it: whoever writes where records lie can end a token, and
//     make none.
//
// The package reads no clock and no randomness but what it is given.
package token

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"etcdadm.io/internal/duration"
)

const (
	idLength    = 6
	secretBytes = 20 // 160 bits, which is 32 characters without padding

	// DefaultLife is how long a token is good where nothing is said.
	DefaultLife = duration.Day
	// MaxLife is the longest that a token may be good. One that is needed for longer is made again.
	MaxLife = 30 * duration.Day
	// MaxUses bounds a count of uses that a person asks for.
	MaxUses = 50
	// MaxDescription bounds a description, in characters.
	MaxDescription = 120
)

// Errors that callers decide by.
var (
	ErrMalformed = errors.New("is not a join token")
	ErrUnknown   = errors.New("is not known to the cluster")
	ErrWrong     = errors.New("has a wrong secret")
	ErrExpired   = errors.New("has expired")
	ErrUsedUp    = errors.New("is used up")
	ErrRevoked   = errors.New("was revoked")
	// ErrUnsealed: its record was written by somebody without the authorities' keys, or changed by them.
	ErrUnsealed = errors.New("was not made on a host that holds the authorities' keys")
	// ErrOtherHost: it is for one host, and another one came with it.
	ErrOtherHost = errors.New("is for another host")
)

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	// secretLetters are those of base32 (RFC 4648), in lower case.
	secretLetters = lower + "234567"
)

var secretCoding = base32.NewEncoding(secretLetters).WithPadding(base32.NoPadding)

// Token is an ID with its secret. No format verb shows the secret: [Token.Reveal] does.
type Token struct {
	ID     string
	secret string
}

// Mint makes a token of what random gives.
func Mint(random io.Reader) (Token, error) {
	var raw [secretBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return Token{}, fmt.Errorf("make a join token: %w", err)
	}
	const letters = lower + digits
	id := make([]byte, 0, idLength)
	var one [1]byte
	for len(id) < idLength {
		if _, err := io.ReadFull(random, one[:]); err != nil {
			return Token{}, fmt.Errorf("make a join token: %w", err)
		}
		if n := int(one[0]); n < 256/len(letters)*len(letters) { // else the first letters would come more often
			id = append(id, letters[n%len(letters)])
		}
	}
	return Token{ID: string(id), secret: secretCoding.EncodeToString(raw[:])}, nil
}

// Parse reads a token as a person gives it. Its errors wrap ErrMalformed and repeat nothing of the text.
func Parse(text string) (Token, error) {
	id, secret, ok := strings.Cut(strings.TrimSpace(text), ".")
	switch {
	case !ok:
		return Token{}, fmt.Errorf("the text %w: it has no dot, and a token is ID.SECRET", ErrMalformed)
	case !ValidID(id):
		return Token{}, fmt.Errorf("the text %w: its ID, before the dot, is not %d letters and digits", ErrMalformed, idLength)
	case len(secret) != secretCoding.EncodedLen(secretBytes) || strings.Trim(secret, secretLetters) != "":
		return Token{}, fmt.Errorf("the text %w: its secret, after the dot, is not %d letters and digits; was it cut short?", ErrMalformed, secretCoding.EncodedLen(secretBytes))
	}
	return Token{ID: id, secret: secret}, nil
}

// ValidID tells whether a text could be a token's ID.
func ValidID(id string) bool {
	return len(id) == idLength && strings.Trim(id, lower+digits) == ""
}

// Reveal is the whole token, for who made it and for who presents it.
func (t Token) Reveal() string { return t.ID + "." + t.secret }

// String hides the secret, whatever the verb.
func (t Token) String() string   { return t.ID + ".…" }
func (t Token) GoString() string { return t.String() }

// Hash is what a record keeps of the secret.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t.secret))
	return hex.EncodeToString(sum[:])
}

// Record is what a cluster knows of a token.
type Record struct {
	ID          string    `json:"id"`
	Hash        string    `json:"sha256"` // of the secret, in hex
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires"`
	Uses        int       `json:"uses,omitempty"` // how many hosts may join by it; 0: any number
	Used        []Use     `json:"used,omitempty"` // the first one first; with any number of uses the last MaxKeptUses
	Revoked     time.Time `json:"revoked,omitzero"`
	Description string    `json:"description,omitempty"`
	// LeafOnly: who joins by it gets certificates of its own, and no authority's key.
	LeafOnly bool `json:"leafOnly,omitempty"`
	// Host is the only host that may join by it; empty: any.
	Host string `json:"host,omitempty"`
	// Seal is the signature of the authority's key over Statement.
	Seal []byte `json:"seal,omitempty"`
}

// Statement is what of a record is sealed: all that does not change while it is used. It begins as nothing else does that
// the authority's key signs.
func (r Record) Statement(cluster string) []byte {
	return fmt.Appendf(nil, "etcdadm join token, 1\ncluster %q\nid %q\nsha256 %q\ncreated %d\nexpires %d\nuses %d\nleaf-only %t\nhost %q\n",
		cluster, r.ID, r.Hash, r.Created.Unix(), r.Expires.Unix(), r.Uses, r.LeafOnly, r.Host)
}

// Use is one host that joined.
type Use struct {
	Host string    `json:"host"`
	At   time.Time `json:"at"`
	// Try tells a host that asks again, because it was interrupted before it had its answer, from
	// another one of its name: the SHA-256 of a number that the host keeps on its disk.
	Try string `json:"try"`
}

// MaxKeptUses bounds what is remembered of a token that any number of hosts may use.
const MaxKeptUses = 20

// State is a record's standing in one word.
type State string

// The states.
const (
	Valid   State = "valid"
	Expired State = "expired"
	UsedUp  State = "used up"
	Revoked State = "revoked"
)

// State is how the record stands at the time now.
func (r Record) State(now time.Time) State {
	switch {
	case !r.Revoked.IsZero():
		return Revoked
	case !now.Before(r.Expires):
		return Expired
	case r.Uses > 0 && len(r.Used) >= r.Uses:
		return UsedUp
	}
	return Valid
}

// Over is when the record ended; zero: it has not.
func (r Record) Over(now time.Time) time.Time {
	switch r.State(now) {
	case Revoked:
		return r.Revoked
	case Expired:
		return r.Expires
	case UsedUp:
		return r.Used[len(r.Used)-1].At
	case Valid:
	}
	return time.Time{}
}

// Check judges a token by the record of its ID. A nil record is ErrUnknown. The secret comes first: who does not
// know it learns nothing of the record. again is who has used the token already and asks once more.
func Check(r *Record, t Token, try string, now time.Time) (again bool, err error) {
	if r == nil {
		return false, fmt.Errorf("token %s %w", t.ID, ErrUnknown)
	}
	if subtle.ConstantTimeCompare([]byte(r.Hash), []byte(t.Hash())) != 1 {
		return false, fmt.Errorf("token %s %w", t.ID, ErrWrong)
	}
	for _, u := range r.Used {
		again = again || try != "" && u.Try == try
	}
	switch r.State(now) {
	case Revoked:
		return again, fmt.Errorf("token %s %w at %s", t.ID, ErrRevoked, r.Revoked.UTC().Format(time.RFC3339))
	case Expired:
		return again, fmt.Errorf("token %s %w at %s", t.ID, ErrExpired, r.Expires.UTC().Format(time.RFC3339))
	case UsedUp:
		if !again {
			return false, fmt.Errorf("token %s %w: it was for %d, and host %s joined by it last, at %s", t.ID, ErrUsedUp, r.Uses, r.Used[len(r.Used)-1].Host, r.Used[len(r.Used)-1].At.UTC().Format(time.RFC3339))
		}
	case Valid:
	}
	return again, nil
}

// With is the record with one more use.
func (r Record) With(u Use) Record {
	used := append(append([]Use{}, r.Used...), u)
	if r.Uses == 0 && len(used) > MaxKeptUses {
		used = used[len(used)-MaxKeptUses:]
	}
	r.Used = used
	return r
}
