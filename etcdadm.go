// Package etcdadm is etcdadm for Go programs: what the commands status, plan, member, backup,
// restore, init, join and reset do.
//
//	c, err := etcdadm.Connect(ctx, etcdadm.Access{}) // the agent of this machine
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	s, err := c.Status(ctx)
//
// The daemons do the work. A [Client] asks them, hands them a person's step, or puts a command into their queue; all
// that holds for the commands of etcdadm holds here, and nothing is decided in this package. What is seen and decided
// are values of packages that compute on them alone: [etcdadm.io/cluster], [etcdadm.io/plan] and [etcdadm.io/backup].
//
// Every function takes a context, and returns soon after its end. Questions to daemons have a bound of their own, ten
// seconds; what is waited for longer says so. The package keeps nothing between calls but a client's connections, and
// prints nothing.
//
// Errors are told apart by [errors.Is] and the variables below. [Hint] is what a person does next.
package etcdadm

import (
	"errors"
	"time"

	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
)

// askTimeout bounds a question to the daemons.
const askTimeout = 10 * time.Second

// Errors that callers decide by.
var (
	// ErrNoDaemon says that no daemon of the cluster answered in time.
	ErrNoDaemon = console.ErrNoDaemon
	// ErrNoLeader says that no daemon leads, or that the one that does cannot be reached: nothing is decided now.
	ErrNoLeader = manager.ErrNoLeader
	// ErrOtherCluster says that credentials, a machine or a store are not of the cluster that was named.
	ErrOtherCluster = errors.New("it belongs to another cluster")
	// ErrOtherDisk says that a data directory is that of another machine, or of another cluster than was named. Nobody
	// was asked.
	ErrOtherDisk = console.ErrOtherDisk
	// ErrRefused says that what was asked for is not safe or not possible now, and why. Nothing was changed, where the
	// function does not say otherwise.
	ErrRefused = errors.New("refused")
	// ErrWaiting says that the time to wait is up. What was begun goes on. Init and Join wait on when they are called
	// again; Backup, Restore and Apply ask for the same once more.
	ErrWaiting = errors.New("the time to wait is up")
	// ErrFailed says that a command of the queue was not carried out, and why.
	ErrFailed = errors.New("failed")
	// ErrNoBackup says that the store has no such backup.
	ErrNoBackup = backupstore.ErrNoBackup
)

// sortedError is an error with its kind, which it does not repeat.
type sortedError struct{ err, kind error }

func sorted(kind, err error) error { return &sortedError{err, kind} }

func (e *sortedError) Error() string   { return e.err.Error() }
func (e *sortedError) Unwrap() []error { return []error{e.err, e.kind} }

// Hint is what a person does about an error; empty: nothing is known beyond what it says.
func Hint(err error) string {
	var told interface{ Hint() string }
	if errors.As(err, &told) {
		return told.Hint()
	}
	return ""
}
