// Package history has clients use a cluster while something is done to it, writes down what they saw, and checks it
// afterwards against what etcd promises.
//
//	clients, err := history.Start(ctx, history.Config{Endpoints: …, Seed: seed})
//	healed := clients.Fault("cut host 2 off")
//	…
//	clients.Stop()
//	report := clients.Check()
//	if report.Err() != nil { report.Write(dir, history.Log("host 1", "1.log")) }
//
// Two things hold. Recording and checking are apart: Check is a function of a History, which is plain data and can be kept as
// JSON, so what a run found can be checked again. And nothing is believed that was not said: a write that was not
// acknowledged may have happened, at any time after its call, or never.
//
// What is checked, and where it is promised (etcd's "KV API guarantees" and "Lease", and the comments of rpc.proto):
//
//   - each key is linearizable: its values and modification revisions are explained by some order of the operations on it
//     that respects real time (model.go);
//   - revisions go up: nothing answers with a revision below one that was known before the call, and no revision is given
//     twice (revisions.go);
//   - watches tell every write once, in order, without a gap, and nothing else; they agree with each other and with the
//     store's own history (watches.go);
//   - leases are kept for their TTL after the last renewal that was acknowledged (leases.go);
//   - every acknowledged write is there at the end, or was overwritten by one that is known (ends.go).
package history
