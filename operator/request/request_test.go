package request

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"github.com/cockroachdb/datadriven"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The scenarios in testdata are the specification of the way of a backup, and of a restore. A block has a line for each thing:
//
//	cluster deleted paused hibernate copied unread new remade unsupported nostore hosts=none|other|mixed told=20m     without the line there is none
//	asked                                          the object says that it was asked for
//	shown Done|Failed                              it says that it ended
//	queued running for=WORD                        the command is in the queue
//	ended RESULT reason=WORD
//	restore replaces=4 id=ID backup=NAME proven survivor=HOST aside=HOST/DIR lost=HOST from first=COMMAND   it is an EtcdRestore, and no EtcdBackup
//	copy bare there done failed=WHY lacks=WHY waits=WHY       of its backup, from another store
//	late                                           its word does not count any more
//	opening=WORDS                                  the generation that was made for it does not serve all clients
//
// Of clusters that are restored the first line has generation=4 id=ID made=backup/NAME|survivor|aside/DIR heard=HOST proven=NAME too.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, asks := read(t, d)
			out := Next(s)
			if again := s; again.Shown != out.Status { // what is shown is what follows from it, once the command is asked for
				again.Shown, again.Heard.Queued = out.Status, s.Heard.Queued || out.Ask
				if next := Next(again); next.Ask || next.Status.Phase != out.Status.Phase {
					t.Errorf("%s: it goes on to %+v", d.Pos, next)
				}
			}
			var b strings.Builder
			if out.Ask {
				b.WriteString("ask" + asks + "\n")
			}
			if out.Copy {
				b.WriteString("copy\n")
			}
			fmt.Fprintf(&b, "%s command=%s backup=%s: %s\n", out.Status.Phase, out.Status.Command, out.Status.Backup, out.Status.Reason)
			return b.String()
		})
	})
}

func read(t *testing.T, d *datadriven.TestData) (s Seen, asks string) {
	s = Seen{Cluster: "main", Command: "c"}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		args := map[string]string{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			args[key] = strings.ReplaceAll(value, "_", " ")
		}
		switch words[0] {
		case "cluster":
			s.World = worldOf(args)
			s.Hindrance = Backup(s.World)
		case "asked":
			s.Shown = v1alpha1.RequestStatus{Phase: v1alpha1.Queued, Command: "c"}
		case "shown":
			s.Shown = v1alpha1.RequestStatus{Phase: words[1], Command: "c", Backup: "b", Reason: "as it was"}
		case "restore":
			if s.World != nil {
				var c cluster.Command
				if c, s.Hindrance = Restore(s.World, restoreOf(args), args["first"]); s.Hindrance == nil {
					asks = fmt.Sprintf(": %s backup=%s host=%s dir=%s lost=%v", c.Kind, c.Backup, c.Host, c.Dir, c.Lost)
				}
			}
		case "copy":
			if _, bare := args["bare"]; !bare {
				_, there := args["there"]
				_, done := args["done"]
				s.World.Copy = &decide.Copy{Job: "copy-1", From: "s3://b/other", There: there, Done: done, Failed: args["failed"], Lacks: args["lacks"], Waits: args["waits"]}
			}
		case "late":
			s.Late = true
		case "opening":
			s.Opening = strings.Join(words[1:], " ")
		case "queued":
			_, running := args["running"]
			s.Heard = record.Heard{Queued: true, Running: running, For: args["for"]}
		case "ended":
			s.Heard = record.Heard{Ended: &control.Ended{Result: words[1], Reason: args["reason"]}}
			if words[1] == "done" {
				s.Heard.Ended.Backup = "b"
			}
		default:
			t.Fatalf("%s: what is %q?", d.Pos, words[0])
		}
	}
	return s, asks
}

func restoreOf(args map[string]string) *v1alpha1.RestoreSpec {
	_, proven := args["proven"]
	spec := &v1alpha1.RestoreSpec{Cluster: "main", Source: v1alpha1.RestoreSource{Backup: v1alpha1.BackupName(args["backup"]), NewestProven: proven, Survivor: args["survivor"]}}
	spec.Replaces, _ = strconv.ParseInt(args["replaces"], 10, 64)
	spec.ClusterID = args["id"]
	if host, dir, is := strings.Cut(args["aside"], "/"); is {
		spec.Source.SetAside = &v1alpha1.SetAside{Host: host, Dir: dir}
	}
	if args["lost"] != "" {
		spec.Lost = strings.Split(args["lost"], ",")
	}
	if _, is := args["from"]; is {
		spec.From = &v1alpha1.OtherStore{Store: "s3://b/other"}
	}
	return spec
}

func worldOf(args map[string]string) *decide.World {
	has := func(key string) bool { _, is := args[key]; return is }
	w := &decide.World{Now: now, Record: decide.Record{There: !has("new"), Copied: has("copied"), Remade: has("remade")}, Told: &decide.Told{At: now},
		Want: decide.Want{Paused: has("paused"), Hibernate: has("hibernate"), Store: !has("nostore"), Spec: cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}}}}
	if has("deleted") {
		w.Want.Deleted = now
	}
	if has("unread") {
		w.Unread = "it is no JSON"
	}
	if has("refused") {
		w.Want.Refused = "spec.pod is wrong"
	}
	if ago, err := time.ParseDuration(args["told"]); err == nil {
		w.Told.At = now.Add(-ago)
	}
	w.Told.ProvenName = args["proven"]
	for _, name := range strings.Split(args["heard"], ",") {
		w.Told.Hosts = append(w.Told.Hosts, decide.ToldHost{Name: name})
	}
	if n, err := strconv.ParseUint(args["generation"], 10, 64); err == nil {
		kind, what, _ := strings.Cut(args["made"], "/")
		w.Intent = &cluster.Intent{Generation: n, Source: cluster.Source{Kind: map[string]string{"backup": cluster.SourceBackup, "survivor": cluster.SourceSurvivor, "aside": cluster.SourceSetAside}[kind], Backup: what, Dir: what}}
		id, _ := strconv.ParseUint(args["id"], 16, 64)
		w.Intent.Cluster = cluster.ClusterID(id)
	}
	if args["hosts"] != "none" {
		w.Hosts = []decide.Host{{N: 1, Name: "main-1", Running: true, NoStore: has("nostore") || args["hosts"] == "other" || args["hosts"] == "mixed"}}
		if args["hosts"] == "mixed" {
			w.Hosts = append(w.Hosts, decide.Host{N: 2, Name: "main-2", Running: true}, decide.Host{N: 3, Name: "main-3", NoStore: true})
		}
	}
	return w
}

// A generation is open to all clients where the daemons say so, and that of another command is not this one's.
func TestOpening(t *testing.T) {
	in := func(quarantined bool) *cluster.Intent {
		return &cluster.Intent{Generation: 5, CommandID: "c", Quarantined: quarantined}
	}
	closed := &control.Status{Members: []control.MemberStatus{{Host: "a"}, {Host: "b", Quarantined: true}}}
	waits := &control.Status{Blockers: []control.BlockerStatus{{Code: "quarantine", Sentence: "a majority is missing"}}}
	for what, test := range map[string]struct {
		in   *cluster.Intent
		told *control.Status
		want string
	}{
		"all serve":          {in(false), &control.Status{Members: []control.MemberStatus{{Host: "a"}}}, ""},
		"nobody tells":       {in(false), nil, "no daemon has told lately"},
		"closed, and silent": {in(true), nil, "no daemon has told lately"},
		"closed":             {in(true), &control.Status{}, "once a majority of its members is up"},
		"one is closed yet":  {in(false), closed, "once a majority of its members is up"},
		"it says why":        {in(true), waits, "a majority is missing"},
		"of another command": {&cluster.Intent{Generation: 6, CommandID: "d", Quarantined: true}, nil, ""},
		"there is no record": {nil, nil, ""},
	} {
		if got := Opening(test.in, "c", test.told); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q", what, got)
		}
	}
}
