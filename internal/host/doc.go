// Package host is the service "this machine": its identity, its durable state,
// what it observes and the ops that it carries out. It knows no other hosts
// and no membership policy; it only refuses what its own disk, its own member
// or its own promise speak against.
//
// # The loop
//
//	New → Run: load the state · adopt or restart the member · then epoch and
//	           notice changes until the context ends
//	Observe:   make the fence durable · then look
//	Apply:     check fence, disk, stamp and guard · then carry out one op
//
// # Invariants
//
//   - The record comes first. Whatever the process and the data directory are
//     to become is in [record.State] and durable before they are touched, and a restart
//     brings them in line with it. So a crash between any two calls is finished
//     by the next Run, without leader and without store.
//   - A member is started only on evidence that a wiped or rolled-back disk
//     cannot have (SAFETY.md, rules 8 and 9). Evidence that is gone makes this a
//     new disk: the host keeps its ID, gets another disk ID, and what is left
//     of the data is set aside.
//   - A promise never goes down, and facts under a fence were gathered after
//     the fence was durable.
//   - One op at a time. An op begun is finished by the host, whoever asked.
//   - The state is written only when it changes; of an idle host that is the epoch.
//
// No lock is held across a call to a port, so that a stalled disk stalls what
// needs the disk and nothing else.
package host
