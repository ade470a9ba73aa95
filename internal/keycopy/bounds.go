package keycopy

import (
	"time"
)

// pageTimeout ends the read of one page, and of one request with keys: both
// may wait for a slow disk.
const pageTimeout = 60 * time.Second
