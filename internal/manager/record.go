package manager

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

// What a look reads of the record.

func (l *look) readIntent(ctx context.Context, w *Watcher, last look) {
	f := w.Control
	in, marker, tag, err := f.ReadIntent(ctx)
	l.foreign = errors.Is(err, control.ErrOtherCluster)
	if err == nil || l.foreign { // plan says what follows from another cluster's name
		l.tag = tag
		l.view = cluster.StoreView{Read: true, Intent: in, Marker: marker, Conditional: f.Conditional()}
		if !f.Probed() {
			l.view.Read = false
			l.view.Untried = true
			l.gaps = append(l.gaps, cluster.Gap{Kind: cluster.GapStore, Detail: w.untriedWords()})
		}
		if marker && in.Adopted() {
			l.readJoining(ctx, w)
		}
		if in == nil && !marker && !l.foreign {
			l.readOrigin(ctx, w)
		}
		return
	}
	l.failed = !errors.Is(err, control.ErrMalformed)
	l.tag, l.view, l.foreign = last.tag, last.view, last.foreign
	l.view.Read, l.view.Untried = false, false
	l.view.Marker = l.view.Marker || marker
	l.gaps = append(l.gaps, w.gap(err))
}

// readOrigin looks what the cluster is to begin with. Without that the store does not count
// as read: nothing says then that the cluster may begin empty.
func (l *look) readOrigin(ctx context.Context, w *Watcher) {
	o, err := w.Control.ReadOrigin(ctx)
	var ended []control.Ended
	if o != nil {
		ended, err = w.Control.EndedCommands(ctx)
	}
	if err != nil {
		l.failed, l.view.Read = !errors.Is(err, control.ErrMalformed), false
		l.gaps = append(l.gaps, w.gap(err))
		return
	}
	for _, e := range ended { // the last one last
		if e.Kind == cluster.CommandRestore {
			o.Ended = e.Result + ": " + e.Reason
		}
	}
	l.view.Origin = o
}

// readJoining looks whether hosts join a cluster that serves elsewhere. Without that the store
// does not count as read: nothing says then that a generation may be made over its marker.
func (l *look) readJoining(ctx context.Context, w *Watcher) {
	j, _, err := w.Control.ReadJoining(ctx)
	l.view.Joining = err != nil || j != nil || l.view.Intent.Joins
	if err != nil {
		l.failed, l.view.Read = !errors.Is(err, control.ErrMalformed), false
		l.gaps = append(l.gaps, w.gap(err))
	}
}

func (l *look) readSpec(ctx context.Context, w *Watcher, last look) {
	if w.Spec != nil {
		l.spec, l.view.Specified = w.Spec, true
		return
	}
	l.spec = last.spec
	if l.spec == nil {
		l.spec = w.LastSpec() // for repairs, while there is a gap
	}
	read, err := w.Control.ReadSpec(ctx)
	switch {
	case err == nil:
		l.spec, l.view.Specified = read.Spec, read.Spec != nil
	case errors.Is(err, control.ErrMalformed) || errors.Is(err, cluster.ErrSpec):
		l.view.Specified = true
		if l.spec == nil {
			l.left = read.Standing
		}
		l.gaps = append(l.gaps, cluster.Gap{Kind: cluster.GapSpec, Detail: say.Explain(err)})
	default:
		l.failed, l.view.Read = true, false
		l.gaps = append(l.gaps, w.gap(err))
	}
	for _, odd := range read.Warnings {
		w.Say("spec "+odd, "the spec has something unexpected", errors.New(odd))
	}
	if err == nil && read.Spec != nil {
		w.Remember(*read.Spec)
	}
}
