package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// notes makes blockers of what hosts report about themselves.
func notes(v *step.View, h *cluster.HostReport) {
	for _, p := range h.Problems {
		sentence := p.Sentence
		if name := "host " + string(h.Host); !strings.HasPrefix(sentence, name+" ") {
			sentence = name + ": " + sentence
		}
		v.Advise(p.Code, p.Hint, "", "{sentence}", sentence)
	}
	if h.Process.Damaged != "" {
		members.NoteDamaged(v, h)
	}
	noteRejected(v, h)
	if len(h.Process.Differs) > 0 && !cluster.TurnsTLSOn(h.Local.URLs.Peer, h.URLs.Peer) {
		v.Notice("settings-not-applied", "etcdadm member restart "+cluster.ShellWord(string(h.Host)), "host {host}: etcd runs with older settings than a restart would give it: {differs}", h.Host, strings.Join(h.Process.Differs, ", "))
	}
	for _, f := range h.Foreign {
		if f.Dir == "" {
			continue // all of it: the host's own state cannot be used, and a problem says so
		}
		if h.Predecessor != nil && v.Unfounded() {
			continue // what it waits for is said once
		}
		v.Notice("foreign-data", "", "host {host}: {dir} has data of unknown origin ({reason}); etcdadm leaves it alone", h.Host, f.Dir, f.Reason)
	}
	if in := v.Intent; in != nil && in.State == cluster.IntentFounded && in.Cluster != 0 && h.Status != nil && !h.Status.Auth && h.Status.Cluster != in.Cluster && h.Local.Generation >= in.Generation {
		v.Notice("foreign-cluster", "", "host {host} runs a member of cluster {cluster}, and this cluster is {cluster2}; etcdadm leaves it alone", h.Host, h.Status.Cluster, in.Cluster)
	}
	if !h.Clock.IsZero() {
		if skew := h.Clock.Sub(v.Obs.At); skew > sight.MaxSkew || skew < -sight.MaxSkew {
			way := "ahead of"
			if skew < 0 {
				skew, way = -skew, "behind"
			}
			v.Notice("clock-skew", "", "the clock of host {host} is {skew} {way} that of {leader}; leases, certificates and backup times rely on clocks", h.Host, skew.Round(time.Second), way, v.Obs.Leader)
		}
	}
}

// settingsDiffer tells of choices that ought to be the same on every host and are not.
// A host that does not say one is of a release without it, and differs from nobody.
func settingsDiffer(v *step.View) {
	type said struct {
		value string
		hosts []string
	}
	var flags []string // sorted, as each host's are
	by := map[string][]said{}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		for _, s := range h.Settings {
			all := by[s.Flag]
			if all == nil {
				flags = append(flags, s.Flag)
			}
			at := slices.IndexFunc(all, func(x said) bool { return x.value == s.Value })
			if at < 0 {
				at, all = len(all), append(all, said{value: s.Value})
			}
			all[at].hosts = append(all[at].hosts, string(h.Host))
			by[s.Flag] = all
		}
	}
	slices.Sort(flags)
	for _, flag := range flags {
		all := by[flag]
		if len(all) < 2 {
			continue
		}
		var words []string
		for _, x := range all {
			value := x.value
			if value == "" {
				value = "not set"
			}
			words = append(words, fmt.Sprintf("%s on %s", value, strings.Join(x.hosts, ", ")))
		}
		v.Advise("settings-differ", "start the daemons with the same "+flag+", one host at a time", "",
			"{flag} differs between hosts ({values}); the daemon that leads, or takes the backup, uses its own value", flag, strings.Join(words, "; "))
	}
}

// ProtectedFor is how long after the last encrypted backup plain ones are told of: who
// has given encryption up on purpose need not hear of it for ever.
const ProtectedFor = 7 * 24 * time.Hour

// unprotected tells of a newest backup that anybody who has the store can read, where
// one before it was encrypted.
func unprotected(v *step.View) {
	newest, encrypted := v.Obs.Backups.Newest, v.Obs.Backups.Encrypted
	if len(newest) == 0 || newest[0].Encrypted || encrypted == nil || v.Obs.At.Sub(encrypted.At) > ProtectedFor {
		return
	}
	v.Advise("backup-unprotected", "start every daemon with the same --backup-recipient", "etcdadm backup create",
		"backup {backup} is not encrypted, and {name} before it was: whoever can read the store can read every key in it", newest[0].Name, encrypted.Name)
}

// leftBehind tells of set-aside data that goes further than the survivor that the
// present generation was made from: a host was out of sight then, named as lost, and
// has come back. What it has beyond may have been acknowledged, and nobody who named
// it could know. How far each log went its host wrote down when it set it aside.
func leftBehind(v *step.View) {
	in := v.Intent
	if in == nil || in.State != cluster.IntentFounded || in.Source.Kind != cluster.SourceSurvivor || len(in.Founders) != 1 {
		return
	}
	founder, ok := v.Obs.Host(in.Founders[0].Host)
	if !ok {
		return
	}
	var from cluster.SetAside // what the founder had itself
	for _, a := range founder.SetAside {
		if a.Reason == cluster.AsideSuperseded && !a.Foreign && a.Generation < in.Generation && a.Generation >= from.Generation {
			from = a
		}
	}
	if from.Cluster == 0 || from.Log == (cluster.Progress{}) || from.Cluster != in.Superseded() {
		return // nobody can tell: what it was made from was given up since
	}
	further, at := from, cluster.HostID("")
	for i := range v.Obs.Hosts {
		for _, a := range v.Obs.Hosts[i].SetAside {
			if a.Cluster == from.Cluster && !a.Foreign && further.Log.Before(a.Log) {
				further, at = a, v.Obs.Hosts[i].Host
			}
		}
	}
	if at == "" {
		return
	}
	v.Notice("left-behind", fmt.Sprintf("etcdadm restore --undo --from %s --dir %s", at, further.Name()),
		"generation {generation} was recovered from host {host}, whose log ended at term {term}, index {index}, and host {host2} has come back with data of the same cluster whose log ends at term {term2}, index {index2}: writes that clients were told are kept may be in it and not in the cluster. It lies set aside; to go back to it gives up what was written since, and etcdadm host prune {at} --dir {name} --force gives it up",
		in.Generation, founder.Host, from.Log.Term, from.Log.Index, at, further.Log.Term, further.Log.Index, at, further.Name())
}

// StoreOddsAfter is how long a daemon has to see another store than the leader before
// that is told: longer than its look can be old.
const StoreOddsAfter = 45 * time.Second

// storeOdds names the hosts whose daemons see another backup store than the leading
// one, or none. It stops nothing: the leader's own sight is what is acted on.
func storeOdds(v *step.View) {
	for _, h := range v.Obs.Memory.Hosts {
		if h.StoreSince.IsZero() || v.Obs.At.Sub(h.StoreSince) < StoreOddsAfter {
			continue
		}
		if why := v.Obs.StoreOdds(h.Host); why != "" {
			v.Notice("store-differs", "", "host {host} does not see the backup store that the leading daemon sees: it {why}; it cannot lead or found. {lookAtFlags}", h.Host, why, lookAtFlags)
		}
	}
}

const lookAtFlags = "Compare its --backup-store and credentials with those of the other hosts"

// noteRejected says of the member that a host carries, where it and most of the others
// reject each other's certificates, which file is to be mended: the one that rejects one of
// many has done nothing wrong.
func noteRejected(v *step.View, h *cluster.HostReport) {
	rejected := v.Obs.Rejected(h.Local.Member)
	if h.Local.Member == 0 || h.PeerTLS == nil || len(rejected) == 0 || 2*len(rejected) <= len(v.Roster.Seats)-1 {
		return
	}
	r := rejected[0]
	other, theirs := v.PeerTLS(r.Member)
	what := fmt.Sprintf("host %s: its etcd and that of %s reject each other's certificates (%s), and no restart helps", h.Host, other, r.Why)
	switch {
	case !r.Authority || theirs == nil:
		v.Notice("peers-reject", "", "{what}; check {cert} there: its names, addresses and dates", what, h.PeerTLS.Cert)
	case theirs.Fingerprint == h.PeerTLS.Fingerprint:
		v.Notice("peers-reject", "", "host {host}: its etcd and that of {other} reject each other's certificates ({why}), and the authorities in their files are the same by now: etcd runs with what it was started with; stop the daemon of host {host2} with its etcd (SIGINT), and start it again", h.Host, other, r.Why, h.Host)
	default:
		v.Notice("peers-reject", "", "{what}: the peer CAs differ: {file} on host {host} has SHA-256 {fingerprint}, {file2} on host {host2} has {fingerprint2}. Install the cluster's CA on the host that has another one, and restart its daemon with its etcd (SIGINT)",
			what, h.PeerTLS.File, h.Host, h.PeerTLS.Fingerprint, theirs.File, other, theirs.Fingerprint)
	}
}

// unstoredWords says that the store is behind what the hosts keep.
func unstoredWords(v *step.View) string {
	if v.Intent == nil || v.Intent.Unstored.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the hosts alone keep the newest record of the voters (write %d), so lose none of their disks and call none of them lost before it answers", v.Intent.Write)
}
