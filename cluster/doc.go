// Package cluster holds the nouns of etcdadm: hosts, members, specs, fences,
// generations, observations and the operations that one host carries out.
//
// Everything here is plain data with validation and arithmetic. The package
// reads no clock, does no I/O and starts nothing, so every value can be
// written to JSON, kept, compared and replayed. Three invariants hold for all
// of it:
//
//   - an unknown is a value of its own: a host that did not answer is a [Gap]
//     in an [Observation], never an absence;
//   - slices are sorted by their identifying field (see [Observation.Sort]),
//     so that equal facts are equal values;
//   - nothing here carries a secret.
package cluster
