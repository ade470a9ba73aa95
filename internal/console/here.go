package console

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// StartError says why the daemon of this host does not run.
type StartError struct {
	Refusal Refusal
	Err     error // of whoever was asked instead; nil: nobody was
}

func (e *StartError) Error() string {
	told := fmt.Sprintf("the daemon of this host does not run; it ended at %s: %s", e.Refusal.At.Format(time.RFC3339), e.Refusal.Why)
	if e.Err != nil {
		told += "; " + e.Err.Error()
	}
	return told
}

// Unwrap gives the other error.
func (e *StartError) Unwrap() error { return e.Err }

// Hint is the way out.
func (e *StartError) Hint() string {
	return cmp.Or(e.Refusal.Hint, "mend that, and start the daemon again")
}

// Here is the access that the daemon of a data directory on this machine left. Named is the cluster that is meant;
// empty: whichever it is.
//
// Errors: *StartError, where nobody may be asked since that daemon did not start; *DiskError; what the file says.
func Here(dataDir, named string) (Access, error) {
	a, err := ReadAccess(dataDir)
	refused := ReadRefusal(dataDir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return a, err
	case err != nil && refused != nil:
		return a, &StartError{Refusal: *refused}
	case err != nil:
		return a, err
	case refused != nil && refused.Cluster != "" && refused.Cluster != a.Cluster:
		// Whose data lies there is not whom this host's daemon was started for: an image of
		// another cluster's machine. That cluster is not asked, much less told anything.
		return a, &StartError{Refusal: *refused}
	}
	err = CheckDisk(dataDir, a, named)
	if err != nil && refused != nil && refused.Cluster != "" && (named == "" || named == a.Cluster) {
		// A daemon was started for that very cluster here: the address is one that the
		// machine had, or has behind a NAT, and why it does not run is what counts.
		return a, &StartError{Refusal: *refused}
	}
	return a, err
}
