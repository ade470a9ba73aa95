package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// The scenarios in testdata are the specification. A block has a line for each thing:
//
//	now TIME
//	schedule CRON zone=ZONE made=TIME seen=TIME changed=TIME suspend last=TIME     seen: since when the status has it; changed: of an earlier spec
//	backup TIME PHASE of=CLUSTER
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return text(Next(read(t, d)))
		})
	})
}

func text(o Outcome) string {
	var b strings.Builder
	if o.Make != nil {
		fmt.Fprintf(&b, "make %s of %s kept for %s\n", o.Make.Name, o.Make.Spec.Cluster, o.Make.Spec.KeepFor)
	}
	if o.Drop != nil {
		fmt.Fprintf(&b, "drop %s\n", o.Drop.Name)
	}
	at := func(t *metav1.Time) string {
		if t == nil {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(&b, "%s since=%s last=%s next=%s", o.Status.Phase, at(o.Status.Since), at(o.Status.LastTime), at(o.Status.NextTime))
	if o.Status.Reason != "" {
		fmt.Fprintf(&b, ": %s", o.Status.Reason)
	}
	return b.String() + "\n"
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05Z", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func read(t *testing.T, d *datadriven.TestData) Seen {
	o := &v1alpha1.EtcdBackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly", UID: "u", Generation: 2}, Spec: v1alpha1.ScheduleSpec{Cluster: "main", KeepFor: "90d"}}
	s := Seen{Schedule: o}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		switch words[0] {
		case "now":
			s.Now = moment(t, words[1])
		case "schedule":
			o.Spec.Schedule = strings.Join(words[1:6], " ")
			for _, word := range words[6:] {
				key, value, _ := strings.Cut(word, "=")
				switch key {
				case "zone":
					o.Spec.TimeZone = value
				case "made":
					o.CreationTimestamp = metav1.NewTime(moment(t, value))
				case "seen", "changed":
					since := metav1.NewTime(moment(t, value))
					o.Status.Since, o.Status.ObservedGeneration = &since, 2
					if key == "changed" {
						o.Status.ObservedGeneration = 1
					}
				case "last":
					last := metav1.NewTime(moment(t, value))
					o.Status.LastTime = &last
				case "suspend":
					o.Spec.Suspend = true
				default:
					t.Fatalf("%s: what is %q?", d.Pos, word)
				}
			}
		case "backup":
			b := s.backup(moment(t, words[1]))
			b.Status.Phase = words[2]
			if len(words) > 3 {
				b.Spec.Cluster = strings.TrimPrefix(words[3], "of=")
			}
			s.Backups = append(s.Backups, *b)
		default:
			t.Fatalf("%s: what is %q?", d.Pos, words[0])
		}
	}
	return s
}

// However long nobody looked, one backup is made, for the newest time that has passed; and the next look makes none.
func TestOneForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "made")) * time.Minute)
		now := made.Add(time.Duration(rapid.Int64Range(0, int64(3*366*24*time.Hour)).Draw(t, "later")))
		o := &v1alpha1.EtcdBackupSchedule{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u", Generation: 1, CreationTimestamp: metav1.NewTime(made)}}
		o.Spec.Schedule = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 * * * *", "0 3 * * *", "30 2 * * 0", "0 0 1 * *", "0 0 29 2 *"}).Draw(t, "cron")
		o.Spec.TimeZone = rapid.SampledFrom([]string{"", "Europe/Berlin", "Asia/Kathmandu"}).Draw(t, "zone")
		s := Seen{Now: now, Schedule: o}
		out := Next(s)
		times, err := parse(o.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if first := times.Next(made); (out.Make == nil) != first.After(now) {
			t.Fatalf("made %v, the first time after %s is %s, now is %s", out.Make, made, first, now)
		}
		if out.Make == nil {
			return
		}
		at := s.at(out.Make)
		if at.After(now) || !times.Next(at).After(now) {
			t.Fatalf("made for %s, now is %s", at, now)
		}
		o.Status = out.Status
		if again := Next(s); again.Make != nil {
			t.Fatalf("made again: %s", again.Make.Name)
		}
		o.Status = v1alpha1.ScheduleStatus{} // the operator was killed before it wrote the status
		s.Backups = []v1alpha1.EtcdBackup{*out.Make}
		if again := Next(s); again.Make != nil {
			t.Fatalf("made again: %s", again.Make.Name)
		}
	})
}
