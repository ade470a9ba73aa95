package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what one key is. It is comparable, as the checker wants it.
type state struct {
	found bool
	value string
	// mod is the modification revision; 0 when the key is absent, and unseen when nobody has seen it.
	mod int64
	// low is a revision that the last change was not below.
	low int64
}

// unseen is the revision of a write that was not acknowledged and that nobody has seen: no client can name it.
const unseen = -1

// forever is the return of an operation that may still happen.
const forever = math.MaxInt64

func (s state) String() string {
	if !s.found {
		return "absent"
	}
	return fmt.Sprintf("%s of revision %d", s.value, s.mod)
}

// model is etcd's promise for one key: reads give the value and the modification revision of the last write, a write is at a
// revision above all of before, and a compare-and-swap happens if and only if its condition holds.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		return step(s.(state), input.(Operation))
	},
	DescribeOperation: func(input, _ any) string { return input.(Operation).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

// step carries out one operation, and reports whether its answer fits.
func step(s state, o Operation) (bool, state) {
	switch o.Kind {
	case Get:
		return s.shows(o), s
	case Put:
		return s.becomes(o, true)
	case Delete:
		if o.Error == "" && o.Done != s.found {
			return false, s
		}
		if !s.found {
			return o.Error != "" || o.Revision >= s.low, s
		}
		return s.becomes(o, false)
	case CAS:
		if holds := s.mod == o.Expect; o.Error == "" && o.Done != holds {
			return false, s
		} else if !holds {
			return o.Error != "" || s.shows(o), s
		}
		return s.becomes(o, true)
	}
	return false, s
}

// shows reports whether an answer is what is there.
func (s state) shows(o Operation) bool {
	return o.Found == s.found && o.Read == s.value && (!s.found || o.Mod == s.mod) && o.Revision >= s.low
}

// becomes is the state after a write. Revision is 0 when nobody has seen it.
func (s state) becomes(o Operation, found bool) (bool, state) {
	next := state{found: found, value: o.Value, low: o.Revision}
	switch {
	case o.Revision == 0:
		next.low = s.low + 1
		next.mod = unseen
	case o.Revision <= s.low:
		return false, s
	default:
		next.mod = o.Revision
	}
	if !found {
		next.value, next.mod = "", 0
	}
	return true, next
}

// linearize looks for an order of the operations on one key.
func linearize(operations []Operation, within time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	var all []porcupine.Operation
	for _, o := range operations {
		all = append(all, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return})
	}
	return porcupine.CheckOperationsVerbose(model, all, within)
}
