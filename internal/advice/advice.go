// Package advice is an error for people: what is wrong, why, and what to do about it.
package advice

// Error is what is wrong, for people.
type Error struct {
	Problem string
	Err     error  // why; nil: the problem says all
	Advice  string // the way out, or empty
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Problem + ": " + e.Err.Error()
	}
	return e.Problem
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the way out, or empty.
func (e *Error) Hint() string { return e.Advice }
