package rig

import (
	"time"
)

// Disturbed bounds a change of version while something is killed every few seconds.
const Disturbed = 5 * time.Minute
