package cli

import (
	"errors"

	"etcdadm.io/internal/blob/file"
)

// notMounted says of a store whose directory is not there what to do.
func notMounted(err error) error {
	if errors.Is(err, file.ErrNoDirectory) {
		return &Failure{Code: ExitError, Err: err, Advice: "mount it, or correct the path; for a new store --create-store makes the directory"}
	}
	return err
}
