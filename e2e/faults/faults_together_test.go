package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// lapping are two faults that overlap: the second comes later, and goes later.
type lapping struct {
	first, second fault
	wait          func() // from the one to the other
	wakes         func() // is called when the second is about to end
}

func (f lapping) Inject(b *faultBench) error {
	if err := f.first.Inject(b); err != nil {
		return fmt.Errorf("%s: %w", f.first, err)
	}
	f.wait()
	if err := f.second.Inject(b); err != nil {
		return fmt.Errorf("%s: %w", f.second, err)
	}
	return nil
}

func (f lapping) Heal(b *faultBench) error {
	err := f.first.Heal(b)
	f.wait()
	f.wakes()
	return errors.Join(err, f.second.Heal(b))
}

func (f lapping) String() string { return fmt.Sprintf("%s + later %s", f.first, f.second) }

// together are several faults at the same time.
type together []fault

func (f together) Inject(b *faultBench) error {
	for _, one := range f {
		if err := one.Inject(b); err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
	}
	return nil
}

// Heal ends the last one first.
func (f together) Heal(b *faultBench) error {
	var all error
	for i := len(f) - 1; i >= 0; i-- {
		all = errors.Join(all, f[i].Heal(b))
	}
	return all
}

func (f together) String() string {
	var all []string
	for _, one := range f {
		all = append(all, one.String())
	}
	return strings.Join(all, " + ")
}

// standsStill reports whether a fault has an etcd stand still and go on later.
func standsStill(f fault) bool {
	switch f := f.(type) {
	case *paused:
		return f.etcd
	case *diskStalled:
		return true
	case lapping:
		return standsStill(f.first) || standsStill(f.second)
	case together:
		return slices.ContainsFunc(f, standsStill)
	}
	return false
}
