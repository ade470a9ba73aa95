package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"github.com/cockroachdb/datadriven"
)

// now of all scenarios.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The scenarios in testdata are the specification. A block is a world, a line for each thing in it:
//
//	want rotate=1 size=3 spare=0 version=3.6.16 replaceAfter=5m paused hibernate deleted=1h backup drills=24h volumes=Keep refused=WHY issuer=corp+trusted barred automatic from=NAME|proven elsewhere=claims adopt|adopt=ab givenup letgo options=NAME:VALUE
//	record next=4 copied remade held kept last=asked|taken|proven|failed none part begun=NAME queued asked adopts|adopts=ab          without the line there is one, with the next number above all hosts
//	budget 2
//	joining cluster=ab members=3 foreign=3 hosts=2 votes=1   what adopt --join wrote down
//	spec count=3 hosts=1,2,3 hold options=NAME:VALUE                  without the line none is written
//	intent voters=1,2,3 next=1,2,3,4 founding generation=2 theirs joins cluster=ab      without the line there is none
//	told ago=1m seen=1m trust=2:both/former/former hears=1,2,3 carries=1,2,3 members=1,2,3 spent=4 down up=1,2 leads=1 maygo=p1 stays=2:WHY after=3s blockers=no-host backed=1h proven=2h drilled=3h survivor=1 paused=2 generation=1
//	host 1 claim=none|other|leaving|lost set=no|stopped leaves=no|due|old leavesEnd=1h (ago) outlived pod=no|going replace kept adopts|adopts=ab spent=25h silent=6m nostore loses=3.4.45 old=set|pod|both stuck=WHY says=WHY unready runs=1h
//	pause p1 host=2 asked=1m loose                 the operator's; without a time another process asked for it
//	authorities gone keyless rotate=1 phase=trust since=1h bytime due dueSince=9h left=99h other=99h ended         how far they are rotated; without the line there are none
//	authorities unmade issuer=corp asked=no-kind|not-sent|pending|signed|refused|unread of=corp for=1 tries=2 refused=1m why=WHY         who signed the clients' one, and who is asked to
//	copy there done failed=WHY lacks=WHY waits=WHY       of the backup, from elsewhere
//	also others=2 pausesUnread taken=NAME store=NAME unread ns-ends kind-ends shared full made=1m stamped=1m unstamped=WHY
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "outside" {
				return outsideText(NextOutside(readOutside(t, d)))
			}
			w := read(t, d)
			return text(Next(w)) + whys(&w) + wayOut(&w)
		})
	})
}

func text(d Decision) string {
	var b strings.Builder
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "%s", s.Kind)
		switch {
		case s.Kind == SetBudget || s.Kind == LowerBudget:
			fmt.Fprintf(&b, " %d", s.AtLeast)
		case s.Spec != nil:
			fmt.Fprintf(&b, " count=%d version=%s hosts=%s", s.Spec.MemberCount, s.Spec.EtcdVersion, strings.ReplaceAll(fmt.Sprint(s.Spec.Hosts), "main-", ""))
			if s.Spec.Hold {
				b.WriteString(" hold")
			}
		case s.N > 0:
			fmt.Fprintf(&b, " %d", s.N)
		}
		if s.Spent {
			b.WriteString(" spent")
		}
		if s.Adopted {
			b.WriteString(" adopted")
		}
		if s.Outage {
			b.WriteString(" outage")
		}
		if s.Begin != "" {
			b.WriteString(" begin=" + s.Begin)
		}
		if s.Evict {
			b.WriteString(" evict")
		}
		if s.Issuer != (Issuer{}) {
			fmt.Fprintf(&b, " by=%s", s.Issuer.Name)
		}
		if s.Tries > 0 {
			fmt.Fprintf(&b, " try=%d for=%d", s.Tries, s.Rotate)
		}
		if s.Kind == Rotate {
			fmt.Fprintf(&b, " %s for=%d", s.Phase, s.Rotate)
			if s.Next {
				b.WriteString(" by the next ones")
			}
			if s.ByTime {
				b.WriteString(" by time")
			}
		}
		fmt.Fprintf(&b, ": %s\n", s.Why)
	}
	for _, w := range d.Waits {
		fmt.Fprintf(&b, "! %s: %s\n", w.Code, w.Sentence)
		if w.Stands {
			b.WriteString("  stands: until a person acts\n")
		}
		if w.Aside {
			b.WriteString("  aside: the cluster goes on as well as before\n")
		}
		if w.Command != "" {
			fmt.Fprintf(&b, "$ %s\n", w.Command)
		}
	}
	if r := d.Rotation; r != nil {
		fmt.Fprintf(&b, "rotating, %s: %s\n", r.Phase, cmp.Or(r.Waits, "all are ready"))
	}
	if e := d.Ending; e != nil {
		fmt.Fprintf(&b, "they end in %s: %s\n", e.At.Sub(now), e.Keeps)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// wayOut is what a person is shown where the quorum is lost.
func wayOut(w *World) string {
	switch way := w.WayOut(); {
	case way == nil && len(w.Stranded()) > 0:
		return fmt.Sprintf("no pod of a voter runs: a person gives %v up\n", w.Stranded())
	case way == nil:
		return ""
	case len(way.GiveUp) > 0:
		return fmt.Sprintf("way out: a person gives %v up\n", way.GiveUp)
	case way.Survivor != "":
		return fmt.Sprintf("way out: what %s has, without %v\n", way.Survivor, way.Lost)
	case way.Proven:
		return fmt.Sprintf("way out: the newest proven backup, without %v\n", way.Lost)
	default:
		return fmt.Sprintf("way out: backup %s, without %v\n", way.Backup, way.Lost)
	}
}

// whys are the volumes of hosts that do not run, and why they are kept.
func whys(w *World) string {
	var b strings.Builder
	for _, h := range w.Hosts {
		if h.Running || h.Claim == ClaimNone || !w.Want.Deleted.IsZero() {
			continue
		}
		if why := w.Keeps(h); why != "" {
			fmt.Fprintf(&b, "volume of %s: %s\n", h.Name, why)
		}
	}
	return b.String()
}

// every is a duration; empty: none.
func every(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// read makes a world of a block.
func read(t *testing.T, d *datadriven.TestData) World {
	t.Helper()
	w := World{Now: now, Namespace: "team", Name: "main", Record: Record{There: true}}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		args := map[string]string{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			args[key] = value
		}
		switch words[0] {
		case "want":
			w.Want = wantOf(t, args)
		case "record":
			w.Record = Record{There: !has(args, "none"), Next: number(args["next"]), Copied: has(args, "copied"), Remade: has(args, "remade"), Held: has(args, "held"), Part: has(args, "part"), Adopts: has(args, "adopts"), AdoptsID: clusterID(args["adopts"]), Kept: has(args, "kept"), Last: lastOf(args["last"]),
				Begun: Begun{Backup: args["begun"], Queued: has(args, "queued"), Asked: has(args, "queued") || has(args, "asked")}}
			if b := &w.Record.Begun; b.Asked && !b.Queued {
				b.Failed = "there is no such backup"
			}
		case "joining":
			w.Joining = &Joining{Cluster: clusterID(args["cluster"]), Members: number(args["members"]), Hosts: number(args["hosts"]), Votes: number(args["votes"]), Foreign: number(cmp.Or(args["foreign"], "3"))}
		case "copy":
			w.Copy = &Copy{Job: "copy-1", From: "s3://b/other", There: has(args, "there"), Done: has(args, "done"), Failed: args["failed"], Lacks: args["lacks"], Waits: args["waits"]}
		case "budget":
			w.Budget = number(words[1])
		case "spec":
			w.Spec = &cluster.Spec{MemberCount: number(args["count"]), EtcdVersion: version(t, args["version"]), DeadAfter: 5 * time.Minute, Hold: has(args, "hold"), Options: optionsOf(args["options"])}
			if has(args, "accepts") {
				w.Spec.AcceptOutage = args["accepts"] + " 2026-11-20T11:00:00Z"
			}
			for _, h := range names(args["hosts"]) {
				w.Spec.Hosts = append(w.Spec.Hosts, cluster.HostID(h))
			}
		case "intent":
			w.Intent = intentOf(args)
		case "told":
			w.Told = toldOf(args)
		case "authorities":
			w.Authorities = authoritiesOf(args)
		case "pause":
			w.Pause = &Pause{ID: words[1], Host: "main-" + args["host"], For: PauseFor}
			if has(args, "asked") {
				w.Pause.Asked = ago(args["asked"])
			}
			w.Pause.Loose = has(args, "loose")
		case "host":
			w.Hosts = append(w.Hosts, hostOf(number(words[1]), args))
		case "also":
			if has(args, "taken") {
				w.Taken = []string{args["taken"]}
			}
			if has(args, "unread") {
				w.Unread = "it is no JSON"
			}
			if has(args, "others") {
				w.OthersPause = "main-" + args["others"]
			}
			if has(args, "pausesUnread") {
				w.PausesUnread = "it is no JSON"
			}
			w.StoreOf, w.NamespaceEnds, w.KindEnds, w.Shared = args["store"], has(args, "ns-ends"), has(args, "kind-ends"), has(args, "shared")
			w.Full = has(args, "full")
			w.Unstamped = args["unstamped"]
			if has(args, "stamped") {
				w.Stamped = ago(args["stamped"])
			}
			if has(args, "made") {
				w.Since = ago(args["made"])
			}
		default:
			t.Fatalf("%s: what is %q?", d.Pos, words[0])
		}
	}
	if w.Record.Next == 0 {
		w.Record.Next = w.lastNumber() + 1
	}
	if w.Authorities != nil && w.Told != nil { // hosts tell what the step has, unless the line says otherwise
		for i := range w.Told.Hosts {
			if h := &w.Told.Hosts[i]; h.Trust == nil {
				h.Trust = &Trust{Daemon: w.Authorities.Trusts, Member: w.Authorities.Member, Signed: w.Authorities.Signs}
			} else if h.Trust.Daemon == nil {
				h.Trust = nil
			}
		}
	}
	return w
}

// lastOf is a last backup that is so far; one that failed did so half a minute ago.
func lastOf(word string) LastBackup {
	b := LastBackup{Asked: word != "", Taken: word == "taken" || word == "proven", Proven: word == "proven"}
	if word == "failed" {
		b.Failed, b.At = "no quorum", ago("30s")
	}
	return b
}

func wantOf(t *testing.T, args map[string]string) Want {
	w := Want{
		Spec:  cluster.Spec{MemberCount: number(args["size"]), EtcdVersion: version(t, args["version"]), DeadAfter: 5 * time.Minute},
		Spare: number(args["spare"]), ReplaceAfter: 5 * time.Minute, Paused: has(args, "paused"), Hibernate: has(args, "hibernate"),
		Rotate: number(args["rotate"]), Issuer: issuerOf(args["issuer"]), IssuerBarred: has(args, "barred"), RotationGrace: 10 * time.Minute, Backup: has(args, "backup"), Drills: has(args, "drills"), DrillEvery: every(args["drills"]), Volumes: KeepUnproven,
	}
	if has(args, "volumes") {
		w.Volumes = Volumes(args["volumes"])
	}
	if has(args, "accepts") {
		w.Spec.AcceptOutage = args["accepts"]
	}
	if has(args, "deleted") {
		w.Deleted = ago(args["deleted"])
	}
	if has(args, "automatic") {
		w.Spec.AutoRecoverAfter = time.Minute
	}
	switch from := args["from"]; from {
	case "":
	case "proven":
		w.From = &Origin{NewestProven: true}
	default:
		w.From = &Origin{Backup: from}
	}
	if has(args, "elsewhere") {
		w.From.Elsewhere, w.From.Claims = true, args["elsewhere"] == "claims"
	}
	if has(args, "adopt") {
		w.Adopt = &Adopt{Cluster: clusterID(args["adopt"])}
	}
	w.GivenUp, w.LetGo = has(args, "givenup"), has(args, "letgo")
	w.Spec.Options = optionsOf(args["options"])
	if has(args, "refused") {
		w.Refused = args["refused"]
	}
	return w
}

func intentOf(args map[string]string) *cluster.Intent {
	voters := func(list string) (out []cluster.Voter) {
		for _, h := range names(list) {
			n := number(strings.TrimPrefix(h, "main-"))
			out = append(out, cluster.Voter{Host: cluster.HostID(h), Member: cluster.MemberID(n), Disk: cluster.DiskID("d" + strconv.Itoa(n))})
		}
		return out
	}
	in := &cluster.Intent{Generation: uint64(max(1, number(args["generation"]))), State: cluster.IntentFounded, Voters: voters(args["voters"]), Next: voters(args["next"])}
	in.Cluster = clusterID(args["cluster"])
	if has(args, "theirs") || has(args, "joins") {
		in = &cluster.Intent{Joins: has(args, "joins")}
	}
	if has(args, "founding") {
		in.State = cluster.IntentFounding
		for _, h := range names(args["founding"]) {
			in.Founders = append(in.Founders, cluster.Founder{Host: cluster.HostID(h)})
		}
	}
	if has(args, "open") {
		in.History = []cluster.PastGeneration{{Generation: 0, Voters: [][]cluster.Voter{voters(args["open"])}}}
	}
	return in
}

// certificatesOf are those of a word: the former authority's, the next one's, or both.
func certificatesOf(word string) []string {
	switch word {
	case "":
		return nil
	case "both":
		return []string{"former", "next"}
	}
	return []string{word}
}

func authoritiesOf(args map[string]string) *Authorities {
	a := &Authorities{There: !has(args, "gone"), Rotate: number(args["rotate"]), Phase: cluster.RotationPhase(cmp.Or(args["phase"], "done")), Since: ago(cmp.Or(args["since"], "1h")), ByTime: has(args, "bytime"), Due: now.Add(time.Hour), Ends: now.Add(2 * 365 * 24 * time.Hour)}
	a.Trusts, a.Signs = certificatesOf("both"), certificatesOf("next")
	switch a.Phase {
	case cluster.RotateTrust:
		a.Signs = certificatesOf("former")
	case cluster.RotateDrop, cluster.RotateDone:
		a.Trusts = certificatesOf("next")
	}
	a.Member = a.Trusts
	if has(args, "due") {
		a.Due = ago("1m")
	}
	if has(args, "left") {
		a.Ends = ago("-" + args["left"])
	}
	if has(args, "dueSince") {
		a.Due = ago(args["dueSince"])
	}
	if has(args, "other") {
		a.OtherEnds = ago(strings.TrimPrefix("-"+args["other"], "--"))
	}
	a.Unmade, a.Issuer = has(args, "unmade"), issuerOf(args["issuer"])
	if a.Unmade {
		*a = Authorities{Unmade: true}
	}
	if has(args, "asked") {
		a.Asked = &Asked{Request: "main-clients-ca-1a2b3c4d5e", Issuer: issuerOf(cmp.Or(args["of"], "corp")), Rotate: number(args["for"]), Tries: max(1, number(args["tries"])), Since: ago("2h"), State: AskedState(args["asked"]), Why: args["why"]}
		if has(args, "refused") {
			a.Asked.At = ago(args["refused"])
		}
	}
	if has(args, "ended") {
		a.Ends = ago("1m")
	}
	if has(args, "keyless") {
		a.Due, a.Ends, a.Signs = time.Time{}, time.Time{}, nil
	}
	return a
}

func issuerOf(name string) Issuer {
	if name == "" {
		return Issuer{}
	}
	name, trusted := strings.CutSuffix(name, "+trusted")
	return Issuer{Name: name, Kind: "Issuer", Group: "cert-manager.io", Trusted: trusted}
}

func toldOf(args map[string]string) *Told {
	t := &Told{At: ago(args["ago"]), AllUp: !has(args, "down"), Up: names(args["carries"]), Members: names(args["members"]), Generation: uint64(number(args["generation"])), Paused: names(args["paused"])}
	if has(args, "drilled") {
		t.Drilled = ago(args["drilled"])
	}
	if host, why, is := strings.Cut(args["stays"], ":"); is {
		t.Stays = map[string]string{"main-" + host: why}
	}
	if has(args, "up") {
		t.Up = names(args["up"])
	}
	if has(args, "leads") {
		t.Leads = "main-" + args["leads"]
	}
	if has(args, "maygo") {
		t.MayGo = []string{args["maygo"]}
	}
	if has(args, "after") {
		t.After = ago(args["after"])
	}
	if has(args, "seen") {
		t.Seen = ago(args["seen"])
	}
	for _, h := range names(args["hears"]) {
		t.Hosts = append(t.Hosts, ToldHost{Name: h, Carries: slices.Contains(names(args["carries"]), h), Spent: slices.Contains(names(args["spent"]), h)})
	}
	for _, word := range strings.Split(args["trust"], ",") { // HOST:daemon/member/signed, or HOST: where it tells nothing
		host, parts, is := strings.Cut(word, ":")
		for i := range t.Hosts {
			if told := strings.Split(parts+"//", "/"); is && t.Hosts[i].Name == "main-"+host {
				t.Hosts[i].Trust = &Trust{Daemon: certificatesOf(told[0]), Member: certificatesOf(told[1]), Signed: certificatesOf(told[2])}
			}
		}
	}
	if has(args, "blockers") {
		t.Blockers = []string{args["blockers"]}
	}
	if has(args, "survivor") {
		t.Survivor = "main-" + args["survivor"]
	}
	if has(args, "backed") {
		t.Backed, t.BackedName = ago(args["backed"]), "newest"
	}
	if has(args, "proven") {
		t.Backed, t.Proven, t.ProvenName = ago(args["proven"]), ago(args["proven"]), "proven"
	}
	return t
}

func hostOf(n int, args map[string]string) Host {
	h := Host{N: n, Name: fmt.Sprintf("main-%d", n), Claim: ClaimThere, Set: true, Running: true, Leaves: args["leaves"] != "no", LeavesDue: args["leaves"] == "due", OldLeaves: args["leaves"] == "old", Outlived: has(args, "outlived"), Pod: args["pod"] != "no", Replace: has(args, "replace"), Kept: has(args, "kept"), Adopts: has(args, "adopts"), AdoptsID: clusterID(args["adopts"]), Unbound: has(args, "unbound"),
		NoStore: has(args, "nostore"), Going: args["pod"] == "going", Stuck: args["stuck"], Says: strings.ReplaceAll(args["says"], "_", " "), Loses: args["loses"],
		OldSet: args["old"] == "set" || args["old"] == "both", OldPod: args["old"] == "pod" || args["old"] == "both"}
	if h.Pod && h.Stuck == "" {
		h.Serves, h.Runs = !has(args, "unready"), ago(cmp.Or(args["runs"], "1h"))
	}
	if has(args, "ready") {
		h.Ready, h.ReadySince = true, ago(args["ready"])
	}
	if has(args, "claim") {
		h.Claim = Claim(args["claim"])
	}
	switch args["set"] {
	case "no":
		h.Set, h.Running = false, false
	case "stopped":
		h.Running = false
	}
	if has(args, "leavesEnd") {
		h.LeavesEnd = ago(args["leavesEnd"])
	}
	if has(args, "spent") {
		h.SpentSince = ago(args["spent"])
	}
	if has(args, "silent") {
		h.SilentSince = ago(args["silent"])
	}
	return h
}

func clusterID(s string) cluster.ClusterID {
	n, _ := strconv.ParseUint(s, 16, 64)
	return cluster.ClusterID(n)
}

func optionsOf(word string) map[string]string {
	name, value, is := strings.Cut(word, ":")
	if !is {
		return nil
	}
	return map[string]string{name: value}
}

func has(args map[string]string, key string) bool { _, is := args[key]; return is }

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func ago(s string) time.Time { d, _ := time.ParseDuration(s); return now.Add(-d) }

func names(list string) (out []string) {
	for _, n := range strings.Split(list, ",") {
		if n != "" {
			out = append(out, "main-"+n)
		}
	}
	return out
}

func version(t *testing.T, s string) cluster.Version {
	if s == "" {
		s = "3.6.16"
	}
	v, err := cluster.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
