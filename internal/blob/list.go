package blob

import (
	"errors"
	"fmt"
)

// ListError is the error of a listing. That of the whole store names the store,
// unless the driver's own error does.
func ListError(store fmt.Stringer, prefix string, err error) error {
	if prefix != "" {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	if _, named := errors.AsType[*Error](err); named {
		return err
	}
	return fmt.Errorf("list store %s: %w", store, err)
}
