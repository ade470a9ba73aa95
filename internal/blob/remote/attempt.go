package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"etcdadm.io/internal/wake"
)

// Verdict is what a driver makes of the error of one attempt.
type Verdict int

const (
	// Final: another attempt would end the same.
	Final Verdict = iota
	// Again: nothing was done, and another attempt may succeed.
	Again
	// Unsure: it may have been done although no answer came; another attempt may succeed.
	Unsure
)

const (
	attempts  = 4
	firstWait = 100 * time.Millisecond
	longWait  = 2 * time.Second
)

// Try calls do until it succeeds, its error is final, the attempts are used up or ctx ends. Between attempts it waits, up to a
// few seconds in all. unsure tells that an attempt before the last one may have taken effect: a refusal by the last one is then
// no proof that nothing was done.
func Try(ctx context.Context, judge func(error) Verdict, do func(context.Context) error) (unsure bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	wait := firstWait
	for n := 1; ; n++ {
		err = do(ctx)
		if err == nil {
			return unsure, nil
		}
		if ctx.Err() != nil {
			return unsure, Ended(ctx, err)
		}
		verdict := judge(err)
		if verdict == Final || n == attempts {
			return unsure, err
		}
		unsure = unsure || verdict == Unsure
		// Half of the wait is by chance, so that hosts which were refused together do not come back together.
		pause := wait/2 + rand.N(wait/2)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			return unsure, err
		}
		if !wake.After(ctx, pause) {
			return unsure, Ended(ctx, err)
		}
		wait = min(2*wait, longWait)
	}
}

// Ended makes an error that came with the end of ctx say so, whatever an SDK made of it.
func Ended(ctx context.Context, err error) error {
	over := ctx.Err()
	if err == nil || over == nil || errors.Is(err, over) {
		return err
	}
	return fmt.Errorf("%w: %w", over, err)
}

// NotSent tells whether a request can not have reached the other end, since no connection came about.
func NotSent(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// JudgeSilence is the verdict on an error without an answer of the server.
func JudgeSilence(err error) Verdict {
	switch {
	case NotSent(err):
		return Again
	case Silent(err) || errors.Is(err, io.ErrUnexpectedEOF):
		return Unsure
	}
	return Final
}

// JudgeStatus is the verdict on an HTTP status of a request that failed: a server
// that is overloaded or broken may have carried it out all the same.
func JudgeStatus(status int) Verdict {
	switch {
	case status == http.StatusNotImplemented:
		return Final
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return Unsure
	}
	return Final
}
