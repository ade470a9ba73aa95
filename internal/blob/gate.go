package blob

import "context"

type gateKey struct{}

// While gives a context under which a Put takes effect only while still gives nil. A driver asks as late as it can: a remote one
// for each attempt, before the connection and again with the body, one of a directory with its lock held, before the rename. What
// still gives is in the error of a Put that it kept from being written. It must not block.
func While(ctx context.Context, still func() error) context.Context {
	return context.WithValue(ctx, gateKey{}, still)
}

// Still asks what While was given: whether a Put under ctx may take effect now.
func Still(ctx context.Context) error {
	if still, ok := ctx.Value(gateKey{}).(func() error); ok {
		return still()
	}
	return nil
}
