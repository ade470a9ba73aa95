// Package snapshot verifies etcd snapshots, makes data directories out of
// them, and makes a snapshot out of what a stopped member left.
//
//	Verify   file → what is in it, or why it cannot be trusted
//	Restore  file → a data directory of one founding voter, put in place by one rename
//	Inspect  data directory → who that was and how far its log went
//	Extract  data directory → a snapshot with every entry of its log applied
//	Dump     file → its keys and values, one after the other
//	Drill    file → a real etcd has served it, with this hash
//
// The invariants:
//
//   - A source is never written. Inspect and Extract hold the lock of the
//     database that they read, so that no etcd starts on it meanwhile.
//   - A result appears whole or not at all: it is built in a directory beside its
//     place, synced, and renamed to where nothing was before (SAFETY.md, rule 23).
//   - Such a building directory carries our mark and a lock that the tool
//     inherits. What is half built is built anew by whoever holds the lock; what
//     does not carry the mark is set aside. Nothing else is ever removed.
//   - An etcd that is started here is thrown away. It listens on sockets in a
//     directory that only this user can enter, and no member of a real cluster
//     takes it for one of its own (see server and Extract).
package snapshot
