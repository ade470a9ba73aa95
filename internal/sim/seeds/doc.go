// Package seeds holds no code of its own: its tests run the simulator's random worlds,
// and run some of them twice to see that a seed comes back. They are apart from the
// schedules of package sim so that each stays within the time that go test gives a
// package, also on a machine that has other work.
package seeds
