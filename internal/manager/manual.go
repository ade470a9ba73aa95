package manager

import (
	"context"
	"errors"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

// readManual looks whether self-management is off. What the store does not give is as it was
// in the last look of this leadership, and not known before there is one. Nor does an object
// that is lost turn it on, which only a person does.
func (l *look) readManual(ctx context.Context, f *control.Folder, last look) {
	l.manual, l.manualUnknown = last.manual, last.manualUnknown
	m, err := f.ReadManual(ctx)
	lost := errors.Is(err, control.ErrNoManual)
	switch {
	case err == nil, lost && last.manual == nil:
		l.manual, l.manualUnknown = m, ""
	case lost:
		l.manualUnknown = "control/etcdadm-manual.json is gone from the store, and it was off"
	case errors.Is(err, control.ErrMalformed) || l.manualUnknown != "":
		l.manualUnknown = say.Explain(err)
	}
}

// ForgetManual is for a new leadership: others led since, and may have been told.
func (w *Watcher) ForgetManual() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.manual, w.last.manualUnknown = nil, pausesUnknown
}
