package keycopy

// Options say how to copy. The zero value copies all or nothing, into an empty
// target, with leases that begin anew.
type Options struct {
	// LeaveOut leaves out what cannot be carried over, as a [Survey] lists it;
	// else the first such thing ends the copy with [ErrNotPortable].
	LeaveOut bool
	// Resume takes a target that holds a part of the same copy. What is there
	// already is written once more, so its versions count on.
	Resume bool
	// Remaining gives leases of version 3 the TTL that is left to them. Else they
	// begin anew with the TTL that they were granted, as they do whenever etcd
	// gets another leader, and a client that renews them notices nothing; in a
	// target of version 2, when their keys are written, with 30 s at least. Keys of
	// version 2 get what is left in any case: they expire at a time of the clock.
	Remaining bool
	// Renew keeps the leases of both sides (of version 3) from ending meanwhile.
	// It is for etcds that nobody else uses, and that are thrown away.
	Renew bool
	// Progress, when not nil, is told from time to time how much has been written,
	// one call after the other.
	Progress func(keys, bytes int64)
}
