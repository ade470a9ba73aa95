package runtime

import "regexp"

// damage are what etcd and its database end with where what they read from the disk cannot
// be what they wrote: each start ends the same way. Of the log before 3.4 they follow the
// same words without quotes. A disk that gives an error, and a release that does not know
// the format of its data, are not among them: another disk or release may help there.
var damage = []*regexp.Regexp{
	// The log (etcd's server/storage/wal) and raft over it.
	regexp.MustCompile(`\b(?:wal|walpb): (?:crc mismatch|max entry size limit exceeded|conflicting metadata found|snapshot mismatch|slice bounds out of range|file not found)`),
	regexp.MustCompile(`\bWas the raft log corrupted, truncated, or lost\?`),
	regexp.MustCompile(`\bfailed to find database snapshot file`),
	// The database (go.etcd.io/bbolt, and etcd's server/storage/mvcc over it).
	regexp.MustCompile(`\b(?:failed to open database: |cannot open database at .* \()(?:invalid database|checksum error|file size too small)`),
	regexp.MustCompile(`^panic: (?:freepages: failed to get all reachable pages|assertion failed: |page \d+ already freed|invalid freelist page|invalid page type|cannot free page 0 or 1|freelist pgid \(\d+\) above high water mark|bolt\.DB\.meta\(\): invalid meta pages)`),
	regexp.MustCompile(`\bfailed to unmarshal mvccpb`),
}

// damageLine is the line of a log that says that the data on the disk is damaged; empty:
// none does. Only what ends the process counts, since etcd also tells of what it mends.
func damageLine(log string) string {
	for _, line := range ranked(log)[rankFatal] {
		for _, d := range damage {
			if d.MatchString(line) {
				return line
			}
		}
	}
	return ""
}
