package daemon

import (
	"time"

	"etcdadm.io/internal/runtime"
)

// What a daemon waits for beside its host, its manager and the daemons' port,
// and how long at most. docs/waits.md has those that a person can notice.
const (
	// openTimeout bounds the first look at the backup store. A host that has a
	// member starts it without the store afterwards.
	openTimeout = 10 * time.Second
	// releasesTimeout bounds a look through the directories of releases: each
	// etcd in them that is new is asked for its version, and has half of what is left.
	releasesTimeout = 10 * time.Second
	// releasesAsked bounds a person's look, who waits for it, and releasesAnswer one answer
	// about it: a call has ten seconds (package peer).
	releasesAsked  = time.Minute
	releasesAnswer = 8 * time.Second
	// namesTimeout bounds the look-up of the nodes' names in a static config, once,
	// before anything else is begun, and that of the own name for the metrics port.
	namesTimeout = 5 * time.Second
	// ownNameTimeout bounds the last look-up of the own name, without which the daemon ends:
	// a resolver comes to its second server after five seconds.
	ownNameTimeout = 30 * time.Second
	// announceTimeout bounds one announcement of this host, at one place.
	announceTimeout = 10 * time.Second
	// announceLeast is the shortest time between two announcements, and between two
	// looks for other daemons, whatever the configuration says: each asks the store.
	announceLeast = time.Second
	// hostsFileTimeout bounds one edit of the hosts file, which other daemons of
	// the machine lock as well.
	hostsFileTimeout = 10 * time.Second
	// hostsFileEvery is how soon a host that was heard of has its name.
	hostsFileEvery = time.Second
	// retractTimeout bounds what a person waits for an announcement to be gone
	// that only ages otherwise.
	retractTimeout = 5 * time.Second
	// formerTimeout bounds a look through all announcements.
	formerTimeout = 10 * time.Second
	// diskTimeout bounds the question what others remember of this host's disk: two of their pings.
	diskTimeout = 2 * time.Second
	// fenceTimeout bounds the write of a promise that a person has reset.
	fenceTimeout = 5 * time.Second
	// readyTimeout is below the five seconds that a kubelet waits for a probe.
	readyTimeout = 3 * time.Second

	// handOverTimeout: the move of raft's leadership takes two round trips, and
	// an election is what comes without it.
	handOverTimeout = 1500 * time.Millisecond
	// stopTimeout lets etcd have its grace, and the kernel end it after that.
	stopTimeout = runtime.DefaultGrace + 5*time.Second
	// partsEnd is what all parts of the daemon have to end in, from when the end
	// begins. What takes longer stands still, and the end of the program is a crash
	// for it, which every part stands.
	partsEnd = 3 * time.Minute
	// hostEnds is until when the host is waited for before etcd is stopped. An op that
	// it has begun it finishes within two minutes.
	hostEnds = partsEnd - 30*time.Second
	// decidingEnds is until when those parts are waited for that decide and tell; a call
	// to the store or a peer is over long before. What of them stands still leaves the
	// host half a minute.
	decidingEnds = hostEnds - 30*time.Second
	// partLeast is for a part that begins to end when that time is up: one that does
	// not stand still needs no more.
	partLeast = time.Second
	// partSays is how often it is said which parts are waited for.
	partSays = 10 * time.Second

	// portSays is how often it is said that etcd-manager has to be stopped.
	portSays = time.Minute
)

// Bounds of the HTTP listener for metrics, health and status.
const (
	metricsHeader = 5 * time.Second
	metricsRead   = 10 * time.Second
	metricsWrite  = 30 * time.Second
	metricsEnd    = 2 * time.Second // for answers under way when the daemon ends
)
