package open

// Check tells whether Open would understand the URL, without touching the store.
func Check(storeURL string) error {
	_, err := parse(storeURL)
	return err
}
