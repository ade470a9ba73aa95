package open

import "etcdadm.io/internal/blob/s3"

// Check tells whether Open would understand the URL, without touching the store.
func Check(storeURL string) error {
	_, err := parse(storeURL, s3.Options{})
	return err
}
