// Package schedule says when an EtcdBackupSchedule has an EtcdBackup made: a pure function of the object, of the EtcdBackups
// that were made for it, and of the time.
//
// What must always hold:
//
//   - One time of the schedule is one EtcdBackup, whose name is made of it.
//   - However many times passed while nobody looked, or while the last backup was not done, one is made up for: the newest.
//   - No time is made up for that was before the schedule was made or changed; the end of a suspension is a change.
//   - Only EtcdBackups go that are done or failed, and never a backup.
package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the operator's image has no zones

	"etcdadm.io/operator/api/v1alpha1"
	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// history is how many EtcdBackups of a schedule stay that are done or failed.
const history = 5

// Seen is what is decided by.
type Seen struct {
	Now time.Time
	// Schedule is the object.
	Schedule *v1alpha1.EtcdBackupSchedule
	// Backups are the EtcdBackups that were made for it.
	Backups []v1alpha1.EtcdBackup
}

// Outcome is what follows.
type Outcome struct {
	// Make is the EtcdBackup that is made; nil: none.
	Make *v1alpha1.EtcdBackup
	// Drop is an EtcdBackup that is done or failed, and older than those that stay; nil: there is none.
	Drop *v1alpha1.EtcdBackup
	// Next is the next time of the schedule; zero: none comes.
	Next time.Time
	// Status is what the object is to show, once Make is made.
	Status v1alpha1.ScheduleStatus
}

// Next is what becomes of a schedule.
func Next(s Seen) Outcome {
	spec, out := s.Schedule.Spec, Outcome{Status: s.Schedule.Status, Drop: s.beyond()}
	st := &out.Status
	if st.ObservedGeneration != s.Schedule.Generation {
		since := s.Schedule.CreationTimestamp
		if st.ObservedGeneration > 0 {
			since = metav1.NewTime(s.Now.UTC().Truncate(time.Second))
		}
		st.ObservedGeneration, st.Since = s.Schedule.Generation, &since
	}
	if st.Since.After(s.Now) { // by a clock that was ahead: what it saw was before now
		st.Since = &metav1.Time{Time: s.Now.UTC().Truncate(time.Second)}
	}
	last := s.last()
	if !last.IsZero() {
		st.LastTime = &metav1.Time{Time: last}
	}
	st.NextTime, st.Reason = nil, ""
	times, err := parse(spec)
	if err != nil {
		st.Phase, st.Reason = v1alpha1.ScheduleRefused, err.Error()
		return out
	}
	if spec.Suspend {
		st.Phase, st.Reason = v1alpha1.ScheduleSuspended, "spec.suspend is true: no backup is taken, and none is made up for"
		return out
	}
	st.Phase = v1alpha1.ScheduleActive
	if out.Next = times.Next(s.Now); out.Next.IsZero() {
		st.Phase, st.Reason = v1alpha1.ScheduleRefused, "spec.schedule names a time that never comes, such as February 30"
		return out
	}
	out.Next = out.Next.UTC()
	st.NextTime = &metav1.Time{Time: out.Next}
	after := last
	if st.Since.After(after) {
		after = st.Since.Time
	}
	due := latest(times, after, s.Now)
	switch open := s.open(); {
	case due.IsZero(), slices.ContainsFunc(s.Backups, func(b v1alpha1.EtcdBackup) bool { return s.at(&b).Equal(due) }):
	case open != "":
		st.Reason = fmt.Sprintf("a backup was due at %s, and is taken when EtcdBackup %s is done or failed", due.Format(time.RFC3339), open)
	default:
		out.Make = s.backup(due)
		st.LastTime = &metav1.Time{Time: due}
	}
	return out
}

// fields are minute, hour, day of the month, month, and day of the week.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func parse(spec v1alpha1.ScheduleSpec) (cron.Schedule, error) {
	zone := time.UTC
	if spec.TimeZone != "" {
		var err error
		if zone, err = time.LoadLocation(spec.TimeZone); err != nil || strings.EqualFold(spec.TimeZone, "local") {
			return nil, fmt.Errorf("spec.timeZone: %q is no time zone that is known; write it like Europe/Berlin", spec.TimeZone)
		}
	}
	if strings.Contains(spec.Schedule, "TZ=") {
		return nil, errors.New("spec.schedule: the time zone is spec.timeZone")
	}
	times, err := fields.Parse(spec.Schedule)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule: %w", err)
	}
	times.(*cron.SpecSchedule).Location = zone // the parser makes no others of fields
	return times, nil
}

// latest is the last time after one and not after another; zero: there is none. What comes seldom is looked for in longer
// stretches, so that a long absence costs no look at each minute of it.
func latest(times cron.Schedule, after, now time.Time) (last time.Time) {
	const day = 24 * time.Hour
	for _, back := range []time.Duration{time.Hour, day, 31 * day, 366 * day, now.Sub(after)} {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		for t := times.Next(from); !t.IsZero() && !t.After(now); t = times.Next(t) {
			last = t.UTC()
		}
		if !last.IsZero() || !from.After(after) {
			return last
		}
	}
	return last
}

// nameTime ends the name of an EtcdBackup: the time that it is for.
const nameTime = "-20060102-1504"

func (s Seen) backup(at time.Time) *v1alpha1.EtcdBackup {
	o, yes := s.Schedule, true
	return &v1alpha1.EtcdBackup{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EtcdBackup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name + at.UTC().Format(nameTime), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "EtcdBackupSchedule", Name: o.Name, UID: o.UID, Controller: &yes,
		}}},
		Spec: v1alpha1.BackupSpec{Cluster: o.Spec.Cluster, KeepFor: o.Spec.KeepFor},
	}
}

// at is the time that an EtcdBackup is for; zero: its name does not say.
func (s Seen) at(b *v1alpha1.EtcdBackup) time.Time {
	at, _ := time.Parse(nameTime, strings.TrimPrefix(b.Name, s.Schedule.Name))
	return at
}

// last is the newest time that an EtcdBackup was made for; zero: there was none. One that is still to come is of a clock that
// was wrong, and holds up none.
func (s Seen) last() (last time.Time) {
	made := func(at time.Time) {
		if at.After(last) && !at.After(s.Now) {
			last = at
		}
	}
	if t := s.Schedule.Status.LastTime; t != nil {
		made(t.UTC())
	}
	for i := range s.Backups {
		made(s.at(&s.Backups[i]))
	}
	return last
}

// open is an EtcdBackup of the cluster that is neither done nor failed; empty: there is none. One of a cluster that the
// schedule named before may wait for ever.
func (s Seen) open() string {
	for i := range s.Backups {
		if b := &s.Backups[i]; !b.Status.Ended() && b.DeletionTimestamp == nil && b.Spec.Cluster == s.Schedule.Spec.Cluster {
			return b.Name
		}
	}
	return ""
}

// beyond is the oldest EtcdBackup that is done or failed, where there are more than stay. The newest that is done stays: it
// says which backup there is.
func (s Seen) beyond() *v1alpha1.EtcdBackup {
	var ended []*v1alpha1.EtcdBackup
	for i := range s.Backups {
		if b := &s.Backups[i]; b.Status.Ended() && b.DeletionTimestamp == nil {
			ended = append(ended, b)
		}
	}
	if len(ended) <= history {
		return nil
	}
	slices.SortFunc(ended, func(a, b *v1alpha1.EtcdBackup) int { return s.at(a).Compare(s.at(b)) })
	done := func(b *v1alpha1.EtcdBackup) bool { return b.Status.Phase == v1alpha1.Done }
	if done(ended[0]) && !slices.ContainsFunc(ended[1:], done) {
		return ended[1]
	}
	return ended[0]
}
