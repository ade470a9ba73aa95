package main

import "etcdadm.io/internal/testetcd"

// measures are all that there are, in the order of the table.
func measures() []measure {
	return []measure{
		founding(),
		freshMachines(),
		killedFollower(),
		killedLeader(),
		wipedDisk("wiped-same", "wiped disk, same identity → healthy voter again", false),
		wipedDisk("wiped-new", "wiped disk, new identity → healthy voter again", true),
		growing("grow-3.7", testetcd.V37),
		growing("grow-3.6", testetcd.V36),
		growing("grow-3.5", testetcd.V35),
		killedDaemon(),
		backupTaken(),
		backupPlain(),
		writeStall(),
		restored(),
		allLost(),
		versions("up", testetcd.V35, testetcd.V36),
		versions("down", testetcd.V36, testetcd.V35),
		versions("old", testetcd.V34, testetcd.V37),
		quarantined(testetcd.V35, testetcd.V34),
		idleDaemon(),
	}
}
