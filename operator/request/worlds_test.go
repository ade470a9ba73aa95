package request

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"pgregory.net/rapid"
)

// Whatever happens to operator, cluster and daemons, an EtcdRestore is carried out once at most, and only over the generation
// that it names; and what it shows in the end stays.
func TestRestoreOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &decide.World{Now: now, Record: decide.Record{There: true}, Want: decide.Want{Store: true}, Told: &decide.Told{At: now, ProvenName: "p"},
			Intent: &cluster.Intent{Generation: 4}, Hosts: []decide.Host{{N: 1, Name: "main-1", Running: true}}}
		spec := &v1alpha1.RestoreSpec{Replaces: rapid.Int64Range(3, 5).Draw(t, "replaces"), Source: v1alpha1.RestoreSource{Backup: "b"}}
		s := Seen{Cluster: "main", Command: "c", World: w}
		added, runs := 0, 0
		var truth record.Heard // which nobody sees while the record cannot be read
		for range rapid.IntRange(1, 25).Draw(t, "moments") {
			switch rapid.SampledFrom([]string{"operator", "operator", "operator", "daemons", "another restore", "pause", "silence", "time", "store"}).Draw(t, "moment") {
			case "operator": // it may be killed after each of its writes
				_, s.Hindrance = Restore(w, spec, "")
				was := s.Shown
				out := Next(s)
				if out.Ask && rapid.Bool().Draw(t, "queued") {
					if w.Intent.Generation != uint64(spec.Replaces) || w.Want.Paused || s.Late {
						t.Fatalf("it is asked for beside %+v, late: %v", w, s.Late)
					}
					if truth.Ended == nil && !truth.Queued {
						truth, added = record.Heard{Queued: true}, added+1
					}
				} else if out.Ask {
					break // killed before anything was written
				}
				if rapid.Bool().Draw(t, "shown") {
					s.Shown = out.Status
				}
				if was.Ended() && s.Shown != was {
					t.Fatalf("%+v became %+v", was, s.Shown)
				}
			case "daemons":
				if !truth.Queued {
					break
				}
				end := &control.Ended{Name: "c", Result: "expired"}
				if w.Intent.Generation == uint64(spec.Replaces) && rapid.Bool().Draw(t, "run") {
					end.Result, runs = "done", runs+1
					w.Intent = &cluster.Intent{Generation: w.Intent.Generation + 1, CommandID: "c", Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "b"}}
				}
				truth = record.Heard{Ended: end}
			case "another restore":
				w.Intent = &cluster.Intent{Generation: w.Intent.Generation + 1, Source: cluster.Source{Kind: cluster.SourceBackup, Backup: rapid.SampledFrom([]string{"b", "x"}).Draw(t, "of")}}
			case "pause":
				w.Want.Paused = !w.Want.Paused
			case "silence":
				w.Told.At = now.Add(-rapid.SampledFrom([]time.Duration{0, 2 * decide.Fresh}).Draw(t, "ago"))
			case "time":
				s.Late = true
			case "store":
				w.Unread = map[string]string{"": "it does not answer"}[w.Unread]
			}
			if s.Heard = truth; w.Unread != "" {
				s.Heard = record.Heard{}
			}
		}
		if added > 1 || runs > added {
			t.Fatalf("it was asked for %d times, and carried out %d times", added, runs)
		}
		if s.Shown.Phase == v1alpha1.Failed && runs > 0 {
			t.Fatalf("it is said to have failed (%s), and was carried out", s.Shown.Reason)
		}
		if s.Shown.Phase == v1alpha1.Done && runs == 0 && truth.Ended != nil {
			t.Fatalf("it is said to be done, and %+v", truth.Ended)
		}
	})
}
