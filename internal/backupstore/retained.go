package backupstore

import (
	"sync"
	"time"

	"etcdadm.io/backup"
)

// RetainedAgain is how long a backup is left alone that the store refused to
// remove because of an object lock, a hold or a retention period. Until then it
// costs nothing: it counts as kept.
const RetainedAgain = 24 * time.Hour

// retained remembers what the store keeps of its own accord.
type retained struct {
	mu    sync.Mutex // guards until
	until map[backup.Name]time.Time
}

// add remembers a refusal.
func (r *retained) add(name backup.Name, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[backup.Name]time.Time{}
	}
	r.until[name] = now.Add(RetainedAgain)
}

// has says whether a removal need not be tried yet. It forgets one that is to
// be tried again. A time that lies further ahead than any is given was set by a
// clock that was wrong.
func (r *retained) has(name backup.Name, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.until[name]
	if known && until.After(now) && !until.After(now.Add(RetainedAgain)) {
		return true
	}
	delete(r.until, name)
	return false
}
