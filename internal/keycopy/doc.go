// Package keycopy carries keys from one running etcd to another whose data the
// other cannot read: between versions 2 and 3 of the API, both ways, and
// downwards within version 3.
//
//	Survey  source → what is there, and all of it that cannot be carried over
//	Copy    source, empty target → the same keys, values and leases, verified
//	Keep    an etcd → its leases do not end meanwhile
//
// The invariants:
//
//   - The source is only read, at one revision (version 3) or by one answer
//     (version 2), and it is an error when it was another at the end
//     ([ErrSourceChanged]). Whoever calls keeps writers away; this package sees
//     to it that nobody did write. Keys of version 2 that run out meanwhile are no
//     error: those that were read are carried over.
//   - The list of losses, as far as it has to be accepted, is the same whichever
//     keys of version 2 ran out between two surveys.
//   - Nothing is deleted. A target that holds keys is refused ([ErrNotEmpty]), or
//     filled up when asked to resume; keys that the source does not have are found
//     by the verification at the end, and are an error then ([ErrDiffers]).
//   - A copy that returns without an error was read back from the target and has
//     the count and the digest of what was read from the source.
//   - Survey and Copy go by the same rules, in one place ([carrier]), so what the
//     one lists is what the other leaves out.
//   - Memory does not grow with the number of keys: pages of a few MiB, and a
//     record for each lease; to a target of version 2, for each key that expires.
//   - No value appears in a report, a log or an error.
//
// A key of version 2 has the same name in version 3, with its leading slash.
package keycopy
