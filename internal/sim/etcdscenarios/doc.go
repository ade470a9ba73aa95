// Package etcdscenarios holds the simulator's etcd against the real one.
//
// Each file of testdata is a scenario: commands to a cluster, and its answers.
// It runs six times, on the fake and on real members of 3.5, 3.6 and 3.7, and
// every answer must be the same; where releases differ, the answer in the file
// says which release gives which. An answer of the fake that differs from the
// same release's is a failure, so what the planner is tested against in the
// simulator is what etcd does.
//
// What depends on timing is written as a class of outcomes, and every wait is
// bounded. With -short only the fake is run. -rewrite writes the files from
// what real etcd answered.
package etcdscenarios
