package keycopy

// pair is a key on its way.
type pair struct {
	key, value []byte
	lease      int64 // its lease in a source of version 3; 0: none
	expires    int64 // in a source of version 2, seconds since 1970; 0: never
}

func (p pair) size() int { return len(p.key) + len(p.value) }
