package request

import (
	"fmt"
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

// The scenarios in testdata are the specification of a backup's way. A block has a line for each thing:
//
//	cluster deleted paused hibernate copied unread new remade unsupported nostore hosts=none|other told=20m     without the line there is none
//	asked                                          the object says that it was asked for
//	shown Done|Failed                              it says that it ended
//	queued running for=WORD                        the command is in the queue
//	ended RESULT reason=WORD
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := read(t, d)
			out := Next(s)
			if again := s; again.Shown != out.Status { // what is shown is what follows from it, once the command is asked for
				again.Shown, again.Heard.Queued = out.Status, s.Heard.Queued || out.Ask
				if next := Next(again); next.Ask || next.Status.Phase != out.Status.Phase {
					t.Errorf("%s: it goes on to %+v", d.Pos, next)
				}
			}
			var b strings.Builder
			if out.Ask {
				b.WriteString("ask\n")
			}
			if out.Gone {
				b.WriteString("look again\n")
			}
			fmt.Fprintf(&b, "%s command=%s backup=%s: %s\n", out.Status.Phase, out.Status.Command, out.Status.Backup, out.Status.Reason)
			return b.String()
		})
	})
}

func read(t *testing.T, d *datadriven.TestData) Seen {
	s := Seen{Cluster: "main", Command: "c"}
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
	return s
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
	if has("unsupported") {
		w.Want.Unsupported = []string{"spec.hosts"}
	}
	if ago, err := time.ParseDuration(args["told"]); err == nil {
		w.Told.At = now.Add(-ago)
	}
	if args["hosts"] != "none" {
		w.Hosts = []decide.Host{{N: 1, Name: "main-1", Running: true, NoStore: has("nostore") || args["hosts"] == "other"}}
	}
	return w
}
