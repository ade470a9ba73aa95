// Package backupstore is the catalogue of the backups in a store: it lists,
// writes, reads, verifies, prunes and copies them.
//
// Invariants:
//
//   - a backup exists if and only if its meta does. The meta is written last and
//     deleted first, so whatever fails or is cancelled, at any moment, leaves a
//     whole backup or none that is listed;
//   - only a stream that agreed with its own checksum, to its end, becomes a
//     backup, and a reader gets its io.EOF only once everything was checked;
//   - memory does not depend on the size of a database;
//   - two hosts never write under one name: a claim in the folder, put on
//     condition that there is none, decides who does.
//
// Every call ends with its context. Small objects have a deadline of their own,
// [ObjectTimeout]; a listing may take [ListMost], in which the store never
// answers nothing for [ObjectTimeout], and a transfer as long as it needs, but it
// does not stand still for [StallAfter]. Nothing is retried, but a write whose reply was lost is
// settled by reading back.
package backupstore
