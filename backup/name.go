package backup

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ErrName is in the chain of errors about what is no backup's name.
var ErrName = errors.New("not a backup name")

// MaxCounter is the highest counter of a Name.
const MaxCounter = 999_999

// Name names a backup: the second in which it began, in UTC, and six digits that
// tell apart those of one second, such as 2026-11-20T23:08:18Z-000005. It is the
// name of its folder in the store. Names made by [NewName] and [ParseName] are
// valid: they cannot lead out of the folder that they are joined to, and their
// order as text is their order in time.
type Name string

var nameShape = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z-[0-9]{6}$`)

const nameLayout = "2006-01-02T15:04:05Z"

// NewName names a backup that began at a time, whose fraction of a second is
// dropped. Errors wrap ErrName: a year outside of 0 to 9999, a counter above
// MaxCounter.
func NewName(at time.Time, counter int) (Name, error) {
	at = at.UTC()
	if y := at.Year(); y < 0 || y > 9999 {
		return "", fmt.Errorf("%w: the year %d has no four digits", ErrName, y)
	}
	if counter < 0 || counter > MaxCounter {
		return "", fmt.Errorf("%w: the counter %d has more than six digits", ErrName, counter)
	}
	return Name(fmt.Sprintf("%s-%06d", at.Format(nameLayout), counter)), nil
}

// ParseName reads a name as it is listed. The error wraps ErrName and says what
// a name looks like.
func ParseName(s string) (Name, error) {
	if !nameShape.MatchString(s) {
		return "", fmt.Errorf("%w: %q; they look like 2026-11-20T23:08:18Z-000005", ErrName, clip(s))
	}
	if _, err := time.Parse(nameLayout, s[:len(nameLayout)]); err != nil {
		return "", fmt.Errorf("%w: %q has no such time", ErrName, s)
	}
	return Name(s), nil
}

// clip keeps a mistyped name from filling the screen.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Time is the second in which the backup began, by the clock of its host; the
// zero time for a name that is not valid.
func (n Name) Time() time.Time {
	if !nameShape.MatchString(string(n)) {
		return time.Time{}
	}
	at, err := time.Parse(nameLayout, string(n)[:len(nameLayout)])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Compare orders names by time, then by counter.
func (n Name) Compare(o Name) int { return strings.Compare(string(n), string(o)) }

func (n Name) String() string { return string(n) }

// MarshalText renders the name.
func (n Name) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText reads a name; the empty string is no name.
func (n *Name) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*n = ""
		return nil
	}
	p, err := ParseName(string(b))
	*n = p
	return err
}
