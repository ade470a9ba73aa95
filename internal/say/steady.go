package say

import (
	"errors"
	"regexp"

	"etcdadm.io/internal/blob"
)

// The errors of stores are other programs' words: the same trouble reads otherwise at each
// try where it names how long it took, how far it came, or the object that it was tried with.
var (
	took = regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms|s|m|h)(\d+(\.\d+)?(ns|µs|ms|s|m))*`)
	// probeName is of an object that is another one at each try of the store.
	probeName = regexp.MustCompile(regexp.QuoteMeta(blob.ProbePrefix) + `[0-9a-z]+`)
	// listed is how far a listing of the store came that was given up.
	listed = regexp.MustCompile(`\d+ objects`)
)

// Steady is an error's text without what differs from one try of the same to the next.
func Steady(text string) string {
	return listed.ReplaceAllString(probeName.ReplaceAllString(took.ReplaceAllString(text, ""), ""), "")
}

// Explain is an error for people with its hint, where it has one.
func Explain(err error) string {
	var hint interface{ Hint() string }
	if errors.As(err, &hint) && hint.Hint() != "" {
		return err.Error() + "; " + hint.Hint()
	}
	return err.Error()
}
