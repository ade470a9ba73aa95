// Package conversion makes, of the data of one release of etcd, what another
// release can begin with, key by key. It is for what no tool reads: versions 2 and
// 3 of the API, both ways, and old lines of version 3.
//
//	Survey   data → everything that would be lost, and the digest of that list
//	Convert  data → a snapshot of version 3, or a data directory of version 2
//
// Two etcds are run and thrown away: one of the release that wrote the data, on a
// copy of them, and an empty one of the release that is wanted. Nobody else reaches
// either: they listen on sockets in a directory of this user's, or (version 2, which
// has no such sockets) on loopback with a certificate that was made for this one
// run, which clients and peers have to show, too.
//
// The invariants:
//
//   - The data are not changed, and the result appears whole or not at all.
//   - Nothing is lost that was not accepted: a list of losses with another digest
//     than the accepted one is [LossError], and nothing was made. Who accepts any list
//     is told it ([Converted]).
//   - What was made was read back and held against what was read (see keycopy).
//   - Nothing runs any more, and nothing is left, when a call has returned.
//
// Of the keys of version 2 of the API that 3.2 to 3.5 can hold beside the others
// nothing is seen: they are in no snapshot, so they are on no list either, and are not
// carried over.
//
// Whoever calls has to see to it that the data are the newest ones and that nobody
// writes any more: this package sees one member's data and no cluster.
package conversion
