// Package fakeetcd is an etcd cluster in memory, for the simulator: member
// processes, their durable data, the network between them, and etcd's rules
// about members, in virtual time.
//
// Raft is not imitated. Each process drives the raft library that etcd itself
// uses (go.etcd.io/raft/v3, RawNode) over logs that survive or do not survive
// as the caller decides, so an acknowledged write is lost exactly where real
// raft would lose it. What is imitated is etcd around raft: bootstrap and its
// refusals, membership checks, health of peer connections, linearizable reads,
// leases, alarms, quota, versions, and when a member serves clients at all. The
// scenarios in internal/sim/etcdscenarios hold that part against real releases.
//
// Everything happens in one loop, [Net.Run], which takes events in the order of
// their virtual time and, within one instant, of their making. Equal seeds and
// equal calls give equal histories: raft's own randomness (election timeouts) is
// not used, because the library takes it from crypto/rand; a process counts its
// ticks itself and tells raft when to campaign. Callers on several goroutines
// should not act at the same instant if they want the same history again.
//
// The hooks of [Options] run inside the loop and must not call into the Net.
package fakeetcd
