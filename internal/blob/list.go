package blob

import "fmt"

// ListError is the error of a listing. That of the whole store names the store,
// as the driver's own error does.
func ListError(prefix string, err error) error {
	if prefix == "" {
		return err
	}
	return fmt.Errorf("list %q: %w", prefix, err)
}
