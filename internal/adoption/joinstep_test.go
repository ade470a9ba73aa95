package adoption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
)

// What a person is told, scene by scene.
func TestNext(t *testing.T) {
	v36 := cluster.MustVersion("3.6.16")
	base := func() *Scene {
		s := &Scene{Cluster: 9, Peer: []string{"http://o1"}, Joining: &control.Joining{Cluster: 9, Members: 1, Backup: "b", Ours: [][]string{{"http://o1"}}},
			Admission: &record.Admission{Cluster: 9, Known: []cluster.MemberID{1, 2, 3}, Member: 4}}
		for id := cluster.MemberID(1); id <= 4; id++ {
			m := cluster.Member{ID: id, Name: fmt.Sprint("m", id), PeerURLs: []string{fmt.Sprint("http://f", id)}, ClientURLs: []string{"http://c"}}
			if id == 4 {
				m.PeerURLs = []string{"http://o1"}
			} else {
				s.Joining.Foreign = append(s.Joining.Foreign, m)
			}
			s.Members = append(s.Members, Seen{Member: m, Status: &cluster.MemberStatus{Member: id, Cluster: 9, Version: v36, Leader: 1, Index: 9, Applied: 9, Healthy: true}})
		}
		return s
	}
	gone := func(s *Scene) { s.Joining.Members, s.Members, s.Admission = 3, s.Members[:3], nil }
	learner := func(s *Scene) {
		s.Members[3].Learner, s.Members[3].Status.Learner = true, true
	}
	for name, c := range map[string]struct {
		change func(*Scene)
		kind   StepKind
		words  string
	}{
		"remove a follower":     {func(*Scene) {}, StepRemove, "3 of 3"},
		"the one that is meant": {func(s *Scene) { s.Of = 9 }, StepRemove, "3 of 3"},
		"another one is meant":  {func(s *Scene) { s.Of, s.Recorded = 8, true }, StepRefuse, "are of cluster 9, and cluster 8 is meant"},
		"the leader hands over": {func(s *Scene) { s.Members = []Seen{s.Members[0], s.Members[3]} }, StepMove, "m1"},
		"keep":                  {func(s *Scene) { s.Keep = true }, StepJoined, "stay"},
		"more are wanted":       {func(s *Scene) { s.Joining.Members = 2 }, StepJoined, "1 of 2"},
		"a foreign one is down": {func(s *Scene) { s.Members[2].Status = nil }, StepRemove, "3 of 3"},
		"two are down":          {func(s *Scene) { s.Members[1].Status, s.Members[2].Status = nil, nil }, StepRemove, "2 of 3"},
		"ours is down":          {func(s *Scene) { s.Members[3].Status = nil }, StepWait, "of ours is not healthy"},
		"all but one are gone":  {func(s *Scene) { s.Members = s.Members[3:] }, StepDone, "1 member"},
		"all are ours, one lost": {func(s *Scene) {
			two := s.Members[2]
			two.ID, two.PeerURLs, two.Status = 5, []string{"http://o2"}, nil
			three := s.Members[3]
			three.ID, three.PeerURLs = 6, []string{"http://o3"}
			said := *three.Status
			said.Member, three.Status = 6, &said
			s.Joining.Members, s.Joining.Ours = 3, [][]string{{"http://o1"}, {"http://o2"}, {"http://o3"}}
			s.Members = []Seen{s.Members[3], two, three}
		}, StepDone, "etcdctl member remove 5"},
		"two leaders":      {func(s *Scene) { s.Members[1].Status.Leader = 2 }, StepWait, "agree"},
		"promote":          {learner, StepPromote, "caught up"},
		"it lags":          {func(s *Scene) { learner(s); s.Members[0].Status.Index = 1e6 }, StepWait, "9 of 1000000"},
		"it hears nothing": {func(s *Scene) { learner(s); s.Members[3].Status.Leader = 0 }, StepWait, "reach this host at http://o1?"},
		"with TLS it hears nothing": {func(s *Scene) {
			learner(s)
			s.Members[3].Status.Leader, s.Members[3].PeerURLs = 0, []string{"https://o1"}
		}, StepWait, "authority for peers trust its certificate?"},
		"ours is listed with TLS, theirs without": {func(s *Scene) {
			s.Joining.Ours, s.Members[3].PeerURLs = [][]string{{"https://o1"}}, []string{"https://o1"}
		}, StepRemove, "3 of 3"},
		"ours is listed somewhere else": {func(s *Scene) {
			s.Members[3].PeerURLs = []string{"http://o9"}
			s.Joining.Ours = append(s.Joining.Ours, []string{"http://o9"})
		}, StepRefuse, "Nothing is to be emptied"},
		"another answers":           {func(s *Scene) { learner(s); s.Members[3].Status.Member = 7 }, StepRefuse, "answers at this host's"},
		"a voter is down meanwhile": {func(s *Scene) { learner(s); s.Members[1].Status = nil }, StepWait, "m2"},
		"start":                     {func(s *Scene) { learner(s); s.Members[3].Name = "" }, StepStart, "daemon"},
		"started, and lost":         {func(s *Scene) { learner(s); s.Members[3].Status = nil }, StepStart, "etcdctl member remove"},
		"admit":                     {func(s *Scene) { learner(s); s.Admission.Member = 0 }, StepAdmit, ""},
		"add":                       {func(s *Scene) { s.Members, s.Admission = s.Members[:3], nil }, StepAdd, ""},
		"add once more":             {func(s *Scene) { s.Members, s.Admission.Member = s.Members[:3], 0 }, StepAdd, ""},
		"it was removed":            {func(s *Scene) { s.Members = s.Members[:3] }, StepRefuse, "empty the host"},
		"wiped, learner":            {func(s *Scene) { learner(s); s.Admission, s.Members[3].Status = nil, nil }, StepRefuse, "etcdctl member remove"},
		"wiped, voter":              {func(s *Scene) { s.Admission, s.Members[3].Status = nil, nil }, StepRefuse, "etcdctl member remove"},
		"copied URLs, learner":      {func(s *Scene) { learner(s); s.Admission = nil }, StepRefuse, "another host's --peer-urls? Nothing is to be removed"},
		"copied URLs, voter":        {func(s *Scene) { s.Admission = nil }, StepRefuse, "another host's --peer-urls? Nothing is to be removed"},
		"another cluster's disk":    {func(s *Scene) { s.Admission.Cluster = 8 }, StepRefuse, "prepared for cluster"},
		"another one's store":       {func(s *Scene) { s.Joining.Cluster = 8 }, StepRefuse, "store"},
		"a stranger":                {func(s *Scene) { s.Joining.Foreign = s.Joining.Foreign[1:] }, StepRefuse, "To give up"},
		"another of ours joins": {func(s *Scene) {
			s.Joining.Ours, s.Peer, s.Admission = [][]string{{"http://o1"}, {"http://o2"}}, []string{"http://o2"}, nil
			learner(s)
		}, StepWait, "is joining"},
		"no space":                      {func(s *Scene) { s.Members[0].Status.Alarms = []string{"NOSPACE 1"} }, StepRefuse, "NOSPACE"},
		"two releases":                  {func(s *Scene) { s.Members[0].Status.Version = cluster.MustVersion("3.5.35") }, StepRefuse, "one minor release"},
		"an old release":                {func(s *Scene) { s.each(func(st *cluster.MemberStatus) { st.Version = cluster.MustVersion("3.3.27") }) }, StepRefuse, "learners"},
		"a downgrade":                   {func(s *Scene) { s.Members[0].Status.Downgrading = cluster.MustVersion("3.5.0") }, StepRefuse, "downgrade"},
		"authentication":                {func(s *Scene) { s.each(func(st *cluster.MemberStatus) { *st = cluster.MemberStatus{Auth: true} }) }, StepRefuse, "--user"},
		"authentication, with versions": {func(s *Scene) { s.each(func(st *cluster.MemberStatus) { st.Auth, st.Healthy = true, false }) }, StepRefuse, "--user"},
		// Members that gave out no token of their own learn of it by raft, a learner last of all.
		"a learner knows no token": {func(s *Scene) { learner(s); *s.Members[3].Status = cluster.MemberStatus{Auth: true} }, StepWait, "does not take the token"},
		"a voter knows no token":   {func(s *Scene) { learner(s); *s.Members[1].Status = cluster.MemberStatus{Auth: true} }, StepWait, "does not take the token"},
		"ours knows no token":      {func(s *Scene) { *s.Members[3].Status = cluster.MemberStatus{Auth: true} }, StepWait, "does not take the token"},
		"nobody answers":           {func(s *Scene) { s.each(func(st *cluster.MemberStatus) { st.Member = 99 }) }, StepRefuse, "no member answers"},
		"nobody answers now": {func(s *Scene) {
			for i := range s.Members {
				s.Members[i].Status = nil
			}
		}, StepWait, "no member answers"},
		"begin":           {func(s *Scene) { s.begin() }, StepBackup, ""},
		"begin, a patch":  {func(s *Scene) { s.begin(); s.Release = cluster.MustVersion("3.6.17") }, StepBackup, ""},
		"begin, a newer":  {func(s *Scene) { s.begin(); s.Release = cluster.MustVersion("3.7.3") }, StepRefuse, "to 3.6.16, adopt, and then"},
		"begin, an older": {func(s *Scene) { s.begin(); s.Release = cluster.MustVersion("3.5.35") }, StepRefuse, "etcd 3.5.35 is asked for"},
		"begun, a newer":  {func(s *Scene) { s.Release = cluster.MustVersion("3.7.3") }, StepRemove, ""},
		"begin unhealthy": {func(s *Scene) { s.begin(); s.Members[1].Status.Healthy = false }, StepWait, "m2"},
		"begin, learner":  {func(s *Scene) { s.begin(); s.Members[1].Learner = true }, StepRefuse, "learner"},
		"begin in place":  {func(s *Scene) { s.begin(); s.Peer = []string{"http://f1"} }, StepRefuse, "in place"},

		"begin, ours is listed": {func(s *Scene) { s.begin(); s.Hosts, s.Peer = []string{"http://f2"}, []string{"http://o9"} }, StepRefuse, "is at a host of ours"},
		"begin, this disk has it": {func(s *Scene) {
			s.begin()
			s.Peer, s.Admission = []string{"http://f2"}, &record.Admission{Cluster: 9, Member: 2}
		}, StepRefuse, "is at a host of ours"},
		"begin, none of ours is listed": {func(s *Scene) { s.begin(); s.Hosts = []string{"http://o1", "http://o2"} }, StepBackup, ""},
		"anew, ours is listed":          {func(s *Scene) { gone(s); s.Joining.Foreign[0].ID = 77; s.Hosts = []string{"http://f2"} }, StepRefuse, "is at a host of ours"},

		// What is over begins anew, and nothing else does.
		"given up":           {func(s *Scene) { gone(s); s.Joining.Promoted = []cluster.MemberID{4} }, StepBackup, "anew"},
		"given up, replaced": {func(s *Scene) { gone(s); s.Joining.Foreign[0].ID = 77 }, StepBackup, "anew"},
		"given up, removed":  {func(s *Scene) { gone(s); s.Members = s.Members[:1]; s.Joining.Members = 1 }, StepBackup, "anew"},
		"an old backup":      {func(s *Scene) { gone(s); s.Old = true }, StepBackup, "anew"},
		"not added yet, old": {func(s *Scene) {
			gone(s)
			s.Old, s.Admission = true, &record.Admission{Cluster: 9, Known: []cluster.MemberID{1}}
		}, StepBackup, "anew"},
		"another is to add":      {gone, StepAdd, ""},
		"old, and ours votes":    {func(s *Scene) { s.Old = true }, StepRemove, ""},
		"another writes it":      {func(s *Scene) { gone(s); s.Joining.Foreign[0].ID, s.Moving = 77, true }, StepWait, "another run"},
		"given up, not emptied":  {func(s *Scene) { s.Members = s.Members[:3]; s.Joining.Foreign[0].ID = 77 }, StepRefuse, "empty the host"},
		"given up, and unwell":   {func(s *Scene) { gone(s); s.Old = true; s.Members[1].Status = nil }, StepWait, "m2"},
		"a late learner":         {func(s *Scene) { learner(s); s.Joining.Ours, s.Joining.Backup, s.Admission.Member = nil, "", 0 }, StepBackup, ""},
		"a late learner, backed": {func(s *Scene) { learner(s); s.Joining.Ours = nil }, StepAdmit, ""},
		// The leading daemon adds a member by its record: nothing that is to be removed again.
		"a learner by the record": {func(s *Scene) {
			learner(s)
			s.Members[2].Learner, s.Joining.Foreign, s.Recorded = true, s.Joining.Foreign[:2], true
			s.Members[2].Status = nil
		}, StepDone, "record"},
		"a late one elsewhere": {func(s *Scene) {
			learner(s)
			s.Joining.Ours, s.Peer, s.Admission = nil, []string{"http://o2"}, nil
			s.Joining.Foreign[0].ID = 77
		}, StepRefuse, "learner"},
		"a strange learner": {func(s *Scene) {
			learner(s)
			s.Members[2].Learner, s.Joining.Foreign = true, s.Joining.Foreign[:2]
		}, StepRefuse, "run it there again"},

		// How many, and what the spec says.
		"two of ours":    {func(s *Scene) { s.begin(); s.Count = 2 }, StepRefuse, "2 is even"},
		"as many as two": {func(s *Scene) { s.begin(); s.Members = s.Members[:2] }, StepRefuse, "2 is even"},
		"a release to refuse": {func(s *Scene) {
			s.begin()
			s.each(func(st *cluster.MemberStatus) { st.Version = cluster.MustVersion("3.5.1") })
		}, StepRefuse, "3.5.1"},
		"even was recorded":   {func(s *Scene) { gone(s); s.Joining.Members, s.Joining.Backup = 2, "" }, StepRefuse, "2 is even"},
		"and is changed":      {func(s *Scene) { gone(s); s.Joining.Members, s.Joining.Backup, s.Count = 2, "", 3 }, StepBackup, "anew"},
		"another count, late": {func(s *Scene) { s.Count = 5 }, StepRefuse, "--members=1, and not --members=5"},
		"the same count":      {func(s *Scene) { s.Count = 1 }, StepRemove, ""},
		"another count, race": {func(s *Scene) { gone(s); s.Count, s.Moving = 5, true }, StepWait, "another run"},
		"the spec":            {func(s *Scene) { s.begin(); s.Spec = &cluster.Spec{MemberCount: 3, EtcdVersion: v36} }, StepBackup, ""},
		"another spec":        {func(s *Scene) { s.begin(); s.Spec = &cluster.Spec{MemberCount: 5, EtcdVersion: v36} }, StepRefuse, "--members=5"},
		"another spec, 3.7": {func(s *Scene) {
			s.begin()
			s.Spec = &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}
		}, StepRefuse, "configure-cluster"},
		"no spec to read": {func(s *Scene) { s.begin(); s.SpecWhy = "torn" }, StepRefuse, "torn"},

		// What a person may give up.
		"ours is gone": {func(s *Scene) { s.Members[3].Status = nil }, StepWait, "member remove 4"},
		"ours is gone before": {func(s *Scene) {
			s.Joining.Members, s.Peer, s.Admission, s.Members[3].Status = 3, []string{"http://o2"}, nil, nil
		}, StepWait, "3 of 3 are up; then empty its host"},
		"a foreign one is gone":  {func(s *Scene) { learner(s); s.Members[1].Status = nil }, StepWait, "2 of 2 are up"},
		"it only says it is ill": {func(s *Scene) { learner(s); s.Members[1].Status.Healthy = false }, StepWait, ""},
		"no quorum without it":   {func(s *Scene) { learner(s); s.Members[0].Status, s.Members[1].Status = nil, nil }, StepWait, "cannot be removed"},
		"a learner elsewhere": {func(s *Scene) {
			learner(s)
			s.Joining.Ours, s.Peer, s.Admission = append(s.Joining.Ours, []string{"http://o2"}), []string{"http://o2"}, nil
			s.Members[3].Status = nil
		}, StepWait, "at any time"},
		"two patches, remove":      {func(s *Scene) { s.Members[0].Status.Version = cluster.MustVersion("3.6.15") }, StepRemove, ""},
		"two patches, promote":     {func(s *Scene) { learner(s); s.Members[0].Status.Version = cluster.MustVersion("3.6.15") }, StepPromote, ""},
		"enough of ours, and here": {func(s *Scene) { s.Peer, s.Admission = []string{"http://o2"}, nil }, StepRefuse, "as many as are wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := base()
			c.change(s)
			next := s.Next()
			if next.Kind != c.kind || !strings.Contains(next.Reason, c.words) {
				t.Errorf("%s: %s, want %s with %q", next.Kind, next.Reason, c.kind, c.words)
			}
			for _, m := range s.Members {
				if m.Status != nil && strings.Contains(next.Reason, "member remove "+m.ID.String()) {
					t.Errorf("it says to remove %s, which answers: %s", m.ID, next.Reason)
				}
			}
		})
	}
}

func (s *Scene) begin() { s.Joining, s.Admission, s.Members = nil, nil, s.Members[:3] }

func (s *Scene) each(do func(*cluster.MemberStatus)) {
	for _, m := range s.Members {
		do(m.Status)
	}
}

// A learner that has lost its data between the look and the write is not promoted.
func TestPromoteLooksAgain(t *testing.T) {
	w := newWorld(t, 1, 1)
	j := w.host(1)
	w.members = append(w.members, cluster.Member{ID: 4, Name: "o1", PeerURLs: j.URLs.Peer, ClientURLs: []string{"http://c"}, Learner: true})
	w.started[4] = true
	written := &control.Joining{Cluster: 9, Members: 3, Foreign: w.members[:1], Backup: "b", Ours: [][]string{j.URLs.Peer}}
	if err := j.Folder.PutJoining(t.Context(), "", written); err != nil {
		t.Fatal(err)
	}
	if err := j.place().WriteAdmission(&record.Admission{Cluster: 9, Token: "t", Known: []cluster.MemberID{1}, URLs: j.URLs, Version: cluster.MustVersion("3.6.16"), Member: 4}); err != nil {
		t.Fatal(err)
	}
	s, err := j.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := s.Next()
	if next.Kind != StepPromote {
		t.Fatalf("%+v", next)
	}
	s.Members[0].Status.Index = 1 << 20 // the status of the learner is what it was; another one's went on
	if _, err := j.take(t.Context(), s, next); err == nil || !strings.Contains(err.Error(), "caught up to 100") || !w.members[1].Learner {
		t.Errorf("%v, %+v", err, w.members[1])
	}
	w.started[4] = false
	if _, err := j.take(t.Context(), s, next); err == nil || !strings.Contains(err.Error(), "ask the learner again") || !w.members[1].Learner {
		t.Errorf("%v, %+v", err, w.members[1])
	}
}

// Another run removes a member while this one is planned: who votes asks no peer port
// any more, and who does not yet takes no member that has gone for one that refuses.
func TestPlanBesideAnotherRun(t *testing.T) {
	for name, voting := range map[string]bool{"votes": true, "joins": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3)
			j := w.host(1)
			written := &control.Joining{Cluster: 9, Members: 3, Foreign: slices.Clone(w.members), Backup: "b", Ours: [][]string{j.URLs.Peer}}
			if err := j.Folder.PutJoining(t.Context(), "", written); err != nil {
				t.Fatal(err)
			}
			if voting {
				w.members = append(w.members, cluster.Member{ID: 4, Name: "o1", PeerURLs: j.URLs.Peer, ClientURLs: []string{"http://c"}})
				w.ours[4] = true
				if err := j.place().WriteAdmission(&record.Admission{Cluster: 9, Token: "t", Known: []cluster.MemberID{1}, URLs: j.URLs, Version: cluster.MustVersion("3.6.16"), Member: 4}); err != nil {
					t.Fatal(err)
				}
			}
			away := &leaving{world: w}
			j.Members = away
			p, err := j.Plan(t.Context())
			if err != nil || len(p.Missing) > 0 {
				t.Errorf("missing %v, %v", p.Missing, err)
			}
			if voting == (away.asked > 0) {
				t.Errorf("%d peer ports were asked", away.asked)
			}
		})
	}
}

// leaving is a cluster whose members are gone by the time their peer port is asked.
type leaving struct {
	*world
	asked int
}

func (l *leaving) Reach(_ context.Context, m cluster.Member) error {
	l.asked++
	l.down[m.ID] = true
	return errors.New("connection refused")
}

// While an adoption is under way a moment without a leader is waited for; before it
// a person is told at once.
func TestPlanWithoutALeader(t *testing.T) {
	for name, begun := range map[string]bool{"begun": true, "not begun": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3)
			j := w.host(1)
			if begun {
				if err := j.Folder.PutJoining(t.Context(), "", &control.Joining{Cluster: 9, Members: 3, Foreign: slices.Clone(w.members), Backup: "b"}); err != nil {
					t.Fatal(err)
				}
			}
			j.Members = &leaderless{world: w, looks: 2}
			p, err := j.Plan(t.Context())
			if err != nil || begun != (len(p.Missing) == 0) {
				t.Errorf("missing %v, %v", p.Missing, err)
			}
		})
	}
}

// That nobody tells whether members may be changed keeps an adoption from beginning; one
// that is under way asks again.
func TestPlanWithoutAnAnswer(t *testing.T) {
	for name, begun := range map[string]bool{"begun": true, "not begun": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3)
			j := w.host(1)
			if begun {
				if err := j.Folder.PutJoining(t.Context(), "", &control.Joining{Cluster: 9, Members: 3, Foreign: slices.Clone(w.members), Backup: "b"}); err != nil {
					t.Fatal(err)
				}
			}
			j.Members = &unanswered{world: w, calls: 2}
			p, err := j.Plan(t.Context())
			if err != nil || begun != (len(p.Missing) == 0) || !begun && !strings.Contains(strings.Join(p.Missing, ""), "request timed out") {
				t.Errorf("missing %v, %v", p.Missing, err)
			}
		})
	}
}

// unanswered does not tell for some calls whether the credential may change members.
type unanswered struct {
	*world
	calls int
}

func (u *unanswered) MayChange(context.Context) error {
	if u.calls--; u.calls >= 0 {
		return errors.New("request timed out")
	}
	return nil
}

// What a member in the place of another one has to hold, in bytes.
func TestQuotaOf(t *testing.T) {
	v35, v36 := cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16")
	for name, c := range map[string]struct {
		status cluster.MemberStatus
		want   int64
	}{
		"default":                 {cluster.MemberStatus{Version: v36, Quota: 2 << 30, DBSize: 3 << 29}, 0},
		"small":                   {cluster.MemberStatus{Version: v36, Quota: 1 << 30}, 0},
		"large":                   {cluster.MemberStatus{Version: v36, Quota: 3 << 30}, 3 << 30},
		"none":                    {cluster.MemberStatus{Version: v36, Quota: -1}, 8 << 30},
		"none, 6 GiB":             {cluster.MemberStatus{Version: v35, Quota: -1, DBSize: 6 << 30}, 12 << 30},
		"3.5, measured":           {cluster.MemberStatus{Version: v35, Quota: 8 << 30, DBSize: 1 << 20}, 8 << 30},
		"3.5, measured, default":  {cluster.MemberStatus{Version: v35, Quota: 2 << 30, DBSize: 3 << 29}, 0},
		"3.5, not known":          {cluster.MemberStatus{Version: v35, DBSize: 1 << 20}, 0},
		"3.5, not known, 1.5 GiB": {cluster.MemberStatus{Version: v35, DBSize: 3 << 29}, 8 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			if got := QuotaOf(c.status); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// Where a member before 3.6 does not tell its quota, the plan tells how to keep it.
func TestPlanWithoutAQuota(t *testing.T) {
	for name, c := range map[string]struct {
		members    Members
		fact, step string
	}{
		"told":     {&old{world: newWorld(t, 1, 3), quota: 3 << 30}, "", "quota-backend-bytes=3221225472"},
		"not told": {&old{world: newWorld(t, 1, 3), err: errors.New("connection refused")}, "(connection refused): look at its --quota-backend-bytes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newWorld(t, 1, 3).host(1)
			j.Members = c.members
			p, err := j.Plan(t.Context())
			if err != nil || len(p.Missing) > 0 {
				t.Fatalf("missing %v, %v", p.Missing, err)
			}
			facts, steps := strings.Join(p.Facts, "\n"), strings.Join(p.Steps, "\n")
			if !strings.Contains(facts, c.fact) || !strings.Contains(steps, c.step) ||
				(c.fact == "") == strings.Contains(facts, "etcdadm config set quota-backend-bytes=") || (c.step == "") == strings.Contains(steps, "quota-backend-bytes") {
				t.Errorf("%s\n%s", facts, steps)
			}
		})
	}
}

// old is a cluster of etcd 3.5, whose quota is asked for by itself.
type old struct {
	*world
	quota int64
	err   error
}

func (o *old) Status(ctx context.Context, m cluster.Member) (cluster.MemberStatus, error) {
	st, err := o.world.Status(ctx, m)
	st.Version = cluster.MustVersion("3.5.35")
	return st, err
}

func (o *old) Quota(context.Context, cluster.Member) (int64, error) { return o.quota, o.err }

// Two people write options at once: who comes second writes again, and in the end is
// told to run it again.
func TestKeepQuotaBesideAnother(t *testing.T) {
	for name, c := range map[string]struct {
		others int
		want   error
	}{"once": {1, nil}, "always": {1 << 20, ErrAgain}} {
		t.Run(name, func(t *testing.T) {
			store := &beside{Store: memory.New(), left: c.others}
			folder := control.New(store.Store, "c")
			if err := folder.MarkForeign(t.Context(), cluster.Spec{MemberCount: 1, EtcdVersion: cluster.MustVersion("3.6.16")}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if err := KeepQuota(t.Context(), control.New(store, "c"), 3<<30); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			kept, err := KeptQuota(t.Context(), folder)
			if err != nil || (kept == 3<<30) != (c.want == nil) || store.refused != min(c.others, changeTries) {
				t.Errorf("%d is kept, %v, after %d refusals", kept, err, store.refused)
			}
			if read, err := folder.ReadSpec(t.Context()); err != nil || read.Spec.Options["max-txn-ops"] == "" {
				t.Errorf("what the other one wrote is gone: %+v, %v", read.Spec, err)
			}
		})
	}
}

// beside has another one write an option before each of the first writes.
type beside struct {
	*memory.Store
	left, refused int
}

func (b *beside) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if b.left > 0 {
		b.left--
		if _, err := control.New(b.Store, "c").Settings().AmendOptions(ctx, func(o map[string]string) (map[string]string, error) {
			o["max-txn-ops"] = fmt.Sprint(1000 + b.left%1000)
			return o, nil
		}); err != nil {
			return "", err
		}
	}
	tag, err := b.Store.Put(ctx, key, body, cond)
	if errors.Is(err, blob.ErrPreconditionFailed) {
		b.refused++
	}
	return tag, err
}

// leaderless has no list for some looks.
type leaderless struct {
	*world
	looks int
}

func (l *leaderless) List(ctx context.Context) (cluster.MemberView, error) {
	if l.looks--; l.looks >= 0 {
		return cluster.MemberView{}, errors.New("no raft leader")
	}
	return l.world.List(ctx)
}

// What is written down anew is compared with what was seen, and nothing is added to a
// record that is not there or has no backup yet.
func TestBeginAnewByCompareAndSwap(t *testing.T) {
	w := newWorld(t, 1, 3)
	j := w.host(1)
	over := &control.Joining{Cluster: 9, Members: 3, Foreign: w.members, Backup: "old", Ours: [][]string{{"http://o2"}}, Promoted: []cluster.MemberID{77}}
	if err := j.Folder.PutJoining(t.Context(), "", over); err != nil {
		t.Fatal(err)
	}
	s, err := j.Look(t.Context())
	if err != nil || s.Next().Kind != StepBackup {
		t.Fatalf("%+v, %v", s, err)
	}
	other := w.host(2)
	if err := other.change(t.Context(), func(now *control.Joining) (*control.Joining, error) {
		now.Promoted = append(now.Promoted, 78)
		return now, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.take(t.Context(), s, s.Next()); !errors.Is(err, errChanged) || w.backups > 0 {
		t.Errorf("%v, %d backups", err, w.backups)
	}
	if s, err = j.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.take(t.Context(), s, s.Next()); err != nil {
		t.Fatal(err)
	}
	now, _, err := j.Folder.ReadJoining(t.Context())
	if err != nil || now.Backup != "b1" || len(now.Ours)+len(now.Promoted) > 0 || now.Members != 3 || len(now.Foreign) != 3 {
		t.Errorf("%+v, %v", now, err)
	}
	for _, id := range []cluster.MemberID{77, 78} {
		if voted, err := j.Folder.Promoted(t.Context(), id); !voted || err != nil {
			t.Errorf("whether %s has voted is forgotten: %v", id, err)
		}
	}
	if err := j.change(t.Context(), func(now *control.Joining) (*control.Joining, error) {
		now.Backup = ""
		return now, nil
	}); err != nil {
		t.Fatal(err)
	}
	j.Members = &listing{w, func() { // between the list and what is read after it
		if err := other.change(t.Context(), func(now *control.Joining) (*control.Joining, error) {
			now.Promoted = append(now.Promoted, 79)
			return now, nil
		}); err != nil {
			t.Error(err)
		}
	}}
	if s, err := j.Look(t.Context()); err != nil || !s.Moving || s.ended() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := j.add(t.Context(), s); !errors.Is(err, errChanged) || len(w.members) != 3 {
		t.Errorf("added without a backup: %v", err)
	}
}

// listing does something while the members are listed.
type listing struct {
	*world
	meanwhile func()
}

func (l *listing) List(ctx context.Context) (cluster.MemberView, error) {
	defer l.meanwhile()
	return l.world.List(ctx)
}

// A store without conditional writes is refused before anything is written.
func TestJoinWantsConditions(t *testing.T) {
	for _, c := range []memory.Conditions{memory.Refuse, memory.Ignore} {
		w := newWorld(t, 1, 3)
		w.store = memory.NewWith(c)
		if err := w.host(1).Run(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "conditional writes") || w.backups > 0 {
			t.Errorf("%v, %d backups", err, w.backups)
		}
		if j, _, err := control.New(w.store, "c").ReadJoining(t.Context()); j != nil || err != nil {
			t.Errorf("%+v, %v", j, err)
		}
	}
}

// The plan shows the spec that is there, and refuses one that asks for something else.
func TestPlanShowsTheSpec(t *testing.T) {
	for count, words := range map[int]string{3: "", 5: "asks for 5 members of etcd 3.6.16, and this adoption is for 3"} {
		w := newWorld(t, 1, 3)
		j := w.host(1)
		if err := j.Folder.ConfigureCluster(t.Context(), count, cluster.MustVersion("3.6.16")); err != nil {
			t.Fatal(err)
		}
		p, err := j.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		missing := strings.Join(p.Missing, "\n")
		if !strings.Contains(strings.Join(p.Facts, "\n"), fmt.Sprintf("the store asks for %d members", count)) || (words == "") != (missing == "") || !strings.Contains(missing, words) {
			t.Errorf("%q: facts %v, missing %v", words, p.Facts, p.Missing)
		}
	}
}

// Where the members differ in their patches, the joiner takes the highest that it has.
func TestReleaseOfTheJoiner(t *testing.T) {
	s := &Scene{}
	for _, v := range []string{"3.6.15", "3.6.16", "3.6.14", "3.5.1"} {
		s.Members = append(s.Members, Seen{Status: &cluster.MemberStatus{Version: cluster.MustVersion(v)}})
	}
	for has, want := range map[string]string{"3.6.16 3.6.15": "3.6.16", "3.6.14 3.6.15": "3.6.15", "3.6.13": "", "3.5.1": ""} {
		j := &Join{Has: func(v cluster.Version) bool { return strings.Contains(has, v.String()) }}
		if v, ok := j.release(s); ok != (want != "") || ok && v.String() != want {
			t.Errorf("of %s: %s, %t", has, v, ok)
		}
	}
}

// The marker of a cluster that something else founded is no record of ours: who goes on
// with a joining beside it is not told to take another store, and who begins one is.
func TestMarkerBesideAJoining(t *testing.T) {
	w := newWorld(t, 1, 3)
	j := w.host(1)
	const marker = "control/etcd-cluster-created"
	if _, err := w.store.Put(t.Context(), marker, strings.NewReader(`{"timestamp":1795216395124450019}`), blob.Any); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		joining *control.Joining
		missing int
	}{
		"goes on": {&control.Joining{Cluster: 9}, 0},
		"begins":  {nil, 1},
	} {
		p := &Plan{}
		if ours, err := j.alreadyOurs(t.Context(), p, &Scene{Cluster: 9, Joining: c.joining}); err != nil || ours || len(p.Missing) != c.missing {
			t.Errorf("%s: ours %v, missing %q, %v", what, ours, p.Missing, err)
		}
	}
}

// What was marked for hosts that are to join goes on as what the command marked itself, and another cluster than the one that is meant
// is told of a cluster that is ours, too.
func TestPlanBesideAMarker(t *testing.T) {
	w := newWorld(t, 1, 3)
	j := w.host(1)
	f := control.New(w.store, "c")
	plan := func() *Plan {
		t.Helper()
		p := &Plan{}
		s := &Scene{Cluster: 9, Of: j.Of}
		if ours, err := j.alreadyOurs(t.Context(), p, s); err != nil || ours && s.otherCluster() != nil {
			t.Fatalf("ours: %t, %v", ours, err)
		}
		return p
	}
	if err := f.MarkToJoin(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if p := plan(); len(p.Missing) > 0 {
		t.Errorf("what was marked to be joined is refused: %v", p.Missing)
	}
	if err := f.MarkForeign(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	in, _, tag, err := f.ReadIntent(t.Context())
	if err != nil || !in.Adopted() || !in.Joins {
		t.Fatalf("the command wrote over the marker: %+v, %v", in, err)
	}
	if _, err := f.ReplaceIntent(t.Context(), tag, &cluster.Intent{Name: "c", Generation: 1, Nonce: "n", Token: "t", Cluster: 9, State: cluster.IntentFounded}); err != nil {
		t.Fatal(err)
	}
	if p := plan(); len(p.Facts) != 1 {
		t.Errorf("a cluster that is ours is not told: %+v", p)
	}
	j.Of = 8
	if p, err := j.Plan(t.Context()); err != nil || len(p.Missing) == 0 || !strings.Contains(p.Missing[0], "cluster 8") {
		t.Errorf("another cluster than the one that is meant is taken for it: %+v, %v", p, err)
	}
}

// flapping has a voter that is away at every other look, and its learners at the others.
type flapping struct {
	*world
	looks int
}

func (f *flapping) List(ctx context.Context) (cluster.MemberView, error) {
	f.looks++
	f.down[3] = f.looks%2 == 0
	for id := range f.ours {
		i := f.find(id)
		f.members[i].Name, f.members[i].ClientURLs, f.started[id] = "o1", []string{"http://c"}, f.down[3]
	}
	return f.world.List(ctx)
}

// A run ends in its time, also where what it waits for changes from look to look.
func TestRunEndsInItsTime(t *testing.T) {
	f := &flapping{world: newWorld(t, 1, 3)}
	j := f.host(1)
	j.Members, j.Within = f, 2*time.Second
	if err := control.New(f.store, "c").WriteSpec(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}); err != nil {
		t.Fatal(err)
	}
	if _, err := control.New(f.store, "c").Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := j.Run(ctx); !errors.Is(err, ErrAgain) {
		t.Errorf("after %d looks: %v, want %v", f.looks, err, ErrAgain)
	}
}

// Where another release is wanted a person is told which one is adopted.
func TestPlanSaysTheWayRound(t *testing.T) {
	w := newWorld(t, 1, 3)
	j := w.host(1)
	j.Release = cluster.MustVersion("3.7.3")
	p, err := j.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if missing := strings.Join(p.Missing, "\n"); !strings.Contains(missing, "to 3.6.16, adopt, and then change it") {
		t.Errorf("it says %s", missing)
	}
	if j, _, err := j.Folder.ReadJoining(t.Context()); j != nil || err != nil || w.backups > 0 || len(w.members) != 3 {
		t.Errorf("something was done: %+v, %v", j, err)
	}
}

// Which schemes fit each other, and what a person is told.
func TestPlanAcrossTLS(t *testing.T) {
	for name, c := range map[string]struct {
		secure       bool     // the daemons of ours have TLS
		peers        []string // of theirs
		client       string
		missing, say string
	}{
		"none has it":                {false, []string{"http://f1", "http://f2"}, "http://c", "", "this host joins at http://o1: as"},
		"all have it":                {true, []string{"https://f1", "https://f2"}, "https://c", "", "this host joins at https://o1: as"},
		"ours have it":               {true, []string{"http://f1", "http://f2"}, "http://c", "", "this host joins at http://o1: as|the daemons turn TLS on between the members|https://o1:1, with a certificate"},
		"theirs have it for clients": {true, []string{"http://f1"}, "https://c", "", "this host joins at http://o1: as"},
		"theirs have it for peers":   {true, []string{"https://f1"}, "http://c", "", "this host joins at https://o1: as|https://o1:1, with a certificate"},
		"theirs have it":             {false, []string{"https://f1"}, "https://c", "serves clients at https://c, and this host would at http://o1:1: give", ""},
		"theirs have it, for peers":  {false, []string{"https://f1"}, "http://c", "speaks at https://f1 with its peers, and this host would at http://o1: give", ""},
		"theirs, for clients alone":  {false, []string{"http://f1"}, "https://c", "serves clients at https://c", ""},
		"some of theirs have it":     {true, []string{"http://f1", "https://f2"}, "https://c", "have all of them speak with it, or all without", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, len(c.peers))
			w.secure = c.secure
			for i, u := range c.peers {
				w.members[i].PeerURLs, w.members[i].ClientURLs = []string{u}, []string{c.client}
			}
			p, err := w.host(1).Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			missing, steps := strings.Join(p.Missing, "\n"), strings.Join(p.Steps, "\n")
			if (missing == "") != (c.missing == "") || !strings.Contains(missing, c.missing) {
				t.Errorf("missing: %s", missing)
			}
			for _, words := range strings.Split(c.say, "|") {
				if !strings.Contains(steps, words) {
					t.Errorf("it says nothing of %q:\n%s", words, steps)
				}
			}
			if on := strings.Contains(steps, "turn TLS on"); on != (c.secure && c.peers[0] == "http://f1" && c.missing == "") {
				t.Errorf("it turns TLS on: %t", on)
			}
		})
	}
}

// Ours have TLS, all of them or none; and what theirs turn on meanwhile does not keep ours out.
func TestPlanBesideOursAcrossTLS(t *testing.T) {
	for name, c := range map[string]struct {
		secure        bool
		theirs, peer  string // peer URLs of f1, f2 and of a host of ours that votes
		client, words string // of that one
	}{
		"ours has none":                 {true, "http", "http://o2", "http://o2:1", "start all daemons of ours with TLS, or all without"},
		"this one has none":             {false, "http", "http://o2", "https://o2:1", "start all daemons of ours with TLS, or all without"},
		"as the others":                 {true, "http", "http://o2", "https://o2:1", ""},
		"theirs turned it on meanwhile": {true, "https", "http://o2", "https://o2:1", ""},
	} {
		w := newWorld(t, 1, 2)
		w.secure = c.secure
		for i := range w.members {
			w.members[i].PeerURLs, w.members[i].ClientURLs = []string{fmt.Sprint(c.theirs, "://f", i+1)}, []string{"http://c"}
		}
		w.members = append(w.members, cluster.Member{ID: 7, Name: "o2", PeerURLs: []string{c.peer}, ClientURLs: []string{c.client}})
		j := w.host(1)
		joining := &control.Joining{Cluster: 9, Members: 3, Backup: "2026-01-02T03:04:05Z-000001", Foreign: w.members[:2], Ours: [][]string{{c.peer}}, Promoted: []cluster.MemberID{7}}
		if err := j.Folder.PutJoining(t.Context(), "", joining); err != nil {
			t.Fatal(err)
		}
		p, err := j.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var about []string
		for _, m := range p.Missing {
			if strings.Contains(m, "TLS") {
				about = append(about, m)
			}
		}
		if said := strings.Join(about, "\n"); (said == "") != (c.words == "") || !strings.Contains(said, c.words) {
			t.Errorf("%s: missing %v", name, p.Missing)
		}
	}
}

// An add that came late may have listed this host with another scheme than the one that was prepared last.
func TestAdmittedAsListed(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.secure = true
	j := w.host(1)
	s := &Scene{Cluster: 9, Peer: []string{"https://o1"}, Admission: &record.Admission{Cluster: 9, Known: []cluster.MemberID{1}, URLs: j.URLs, Token: "t", Version: cluster.MustVersion("3.6.16")}}
	own := cluster.Member{ID: 2, PeerURLs: []string{"http://o1"}, Learner: true}
	s.Members = []Seen{{Member: w.members[0]}, {Member: own}}
	if err := j.Folder.PutJoining(t.Context(), "", &control.Joining{Cluster: 9, Members: 1, Backup: "b", Ours: [][]string{{"https://o1"}}}); err != nil {
		t.Fatal(err)
	}
	if err := j.admit(t.Context(), s, own); err != nil {
		t.Fatal(err)
	}
	if a, err := j.place().ReadAdmission(); err != nil || a.Member != 2 || a.URLs.Peer[0] != "http://o1" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A member at a host of ours that no list has is found without TLS as well.
func TestLostWithoutTLS(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.secure = true
	j := w.host(1)
	j.Hosts = []string{"https://o1", "https://o2"}
	w.members[2].PeerURLs = []string{"http://o2"}
	s, err := j.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next := s.Next(); next.Kind != StepRefuse || !strings.Contains(next.Reason, "at a host of ours") {
		t.Errorf("%+v", next)
	}
}
