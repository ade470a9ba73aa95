package members

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Why, in words.

func holdsNoData(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("host {host} has none of its data any more", s.Owner.Host)
}

func answersNobody(_ *step.View, _ cluster.Seat, lasted time.Duration) words.Text {
	return words.F("it has not answered any host for {lasted}", lasted)
}

func memoryOnly(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("its data is gone from the disk of host {host}, and it serves from memory only", s.Host.Host)
}

func unreadable(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("etcd cannot read its data: {damage}", s.Host.Process.Damaged)
}

func otherKeys(*step.View, cluster.Seat, time.Duration) words.Text {
	return words.F("its keys are not those of the other voters")
}

func endsAgainAndAgain(_ *step.View, s cluster.Seat, lasted time.Duration) words.Text {
	return words.F("its process has ended at each start for {lasted} ({process})", lasted, words.ProcessWords(s.Host.Process))
}

func hostGaveUp(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("host {host} gave learner {learner} up{took}: remove it, and let its host join anew", s.Host.Host, s.ID, tookWords(s.Host.Local))
}

func servesNoMore(v *step.View, s cluster.Seat, lasted time.Duration) words.Text {
	return insteadWords(v, s, "serves from memory only, since its data is gone", lasted)
}

func diesAgain(v *step.View, s cluster.Seat, lasted time.Duration) words.Text {
	return insteadWords(v, s, "dies again and again", lasted)
}

func insteadWords(v *step.View, s cluster.Seat, what string, lasted time.Duration) words.Text {
	free, _ := v.Candidates()
	return words.F("learner {learner} {what} for {lasted}: remove it, so that host {host} can join in its place", words.SeatName(s), what, lasted, free[0].Host)
}

func wroteNoLog(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("learner {learner} started and wrote no log, its process is {process}: remove it, and let its host join anew", words.SeatName(s), words.ProcessWords(s.Host.Process))
}

func cannotStart(_ *step.View, s cluster.Seat, _ time.Duration) words.Text {
	return words.F("host {host} lacks what it needs to start learner {learner}: remove the learner to make way for another", s.Owner.Host, s.ID)
}

func hasNoHost(_ *step.View, s cluster.Seat, lasted time.Duration) words.Text {
	return words.F("no host has had learner {learner} for {lasted}: remove it to make way for another", s.ID, lasted)
}

func tookWords(l cluster.LocalMember) string {
	if l.Took == 0 {
		return ""
	}
	return fmt.Sprintf(", because etcd took the ID %s for it from an old member list", l.Took)
}
