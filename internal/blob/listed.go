package blob

import "context"

type listedKey struct{}

// Hearing has heard be told how a listing under the returned context comes on: with how many objects
// of it there are by then, whenever the store has answered something, which may be the same number
// again. It is called by whoever lists, one call after the other, and must not wait. A long listing is
// many questions, each with an answer of its own: who waits for it can tell one that comes on from a
// store that is silent.
func Hearing(ctx context.Context, heard func(objects int)) context.Context {
	return context.WithValue(ctx, listedKey{}, heard)
}

// Heard is how a driver tells of its listing; see [Hearing]. Nobody need hear it.
func Heard(ctx context.Context, objects int) {
	if heard, ok := ctx.Value(listedKey{}).(func(int)); ok {
		heard(objects)
	}
}

type wholeKey struct{}

// Whole makes a listing under the returned context fail where it may lack an object: callers that remove what a listing
// lacks need that. A read under it gives only what was written completely: a writer that does not know the outcome of
// its write needs that. Only a store made of several places can answer in part.
func Whole(ctx context.Context) context.Context { return context.WithValue(ctx, wholeKey{}, true) }

// IsWhole tells whether an answer in part is an error; see [Whole].
func IsWhole(ctx context.Context) bool { return ctx.Value(wholeKey{}) != nil }
