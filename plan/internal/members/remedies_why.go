package members

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Why, in words.

func holdsNoData(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s holds no data of it any more", s.Owner.Host)
}

func answersNobody(_ *step.View, _ cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("it has not answered any host for %s", lasted)
}

func memoryOnly(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("its data is gone from the disk of host %s, and it serves from memory only", s.Host.Host)
}

func unreadable(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return "etcd cannot read its data: " + s.Host.Process.Damaged
}

func otherKeys(*step.View, cluster.Seat, time.Duration) string {
	return "its keys are not those of the other voters"
}

func endsAgainAndAgain(_ *step.View, s cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("its process has ended at each start for %s (%s)", lasted, words.ProcessWords(s.Host.Process))
}

func hostGaveUp(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s gave learner %s up%s: remove it, and let its host join anew", s.Host.Host, s.ID, tookWords(s.Host.Local))
}

func servesNoMore(v *step.View, s cluster.Seat, lasted time.Duration) string {
	return insteadWords(v, s, "serves from memory only, since its data is gone", lasted)
}

func diesAgain(v *step.View, s cluster.Seat, lasted time.Duration) string {
	return insteadWords(v, s, "dies again and again", lasted)
}

func insteadWords(v *step.View, s cluster.Seat, what string, lasted time.Duration) string {
	free, _ := v.Candidates()
	return fmt.Sprintf("learner %s %s for %s: remove it, so that host %s can join in its place", words.SeatName(s), what, lasted, free[0].Host)
}

func wroteNoLog(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("learner %s was started and wrote no log, its process is %s: remove it, and let its host join anew", words.SeatName(s), words.ProcessWords(s.Host.Process))
}

func cannotStart(_ *step.View, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s does not hold what it needs to start learner %s: remove it, so that another can be added", s.Owner.Host, s.ID)
}

func hasNoHost(_ *step.View, s cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("learner %s has no host that carries it for %s: remove it, so that another can be added", s.ID, lasted)
}

func tookWords(l cluster.LocalMember) string {
	if l.Took == 0 {
		return ""
	}
	return fmt.Sprintf(", because etcd took the ID %s for it from an old member list", l.Took)
}
