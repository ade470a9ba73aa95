package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

func TestSurvivors(t *testing.T) {
	voters := []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: voters}
	end := func(host cluster.HostID, member cluster.MemberID, term, index uint64) cluster.LogEnd {
		return cluster.LogEnd{
			Host: host, Generation: 1, Cluster: 7, Member: member, State: cluster.MemberStarted, HasData: true, Intent: in,
			Log: &cluster.Progress{Term: term, Index: index}, Highest: cluster.Progress{Revision: 40, Term: term, Index: 900}, // of an earlier cluster, perhaps
		}
	}
	unread := func(host cluster.HostID, member cluster.MemberID, far *cluster.LogReading) cluster.LogEnd {
		e := end(host, member, 0, 0)
		e.Log, e.Reading = nil, far
		return e
	}
	record := control.Record{Revision: 50, Clusters: []control.ClusterRecord{{Cluster: 7, Term: 3, Index: 90}}}
	for name, c := range map[string]struct {
		hosts  []cluster.LogEnd
		unseen []cluster.HostID
		odds   []cluster.HostID // of these
		quorum bool
		none   bool // no record
		from   cluster.HostID
		want   []string
		never  string
	}{
		"two lost": {
			hosts: []cluster.LogEnd{end("b", 2, 3, 90)}, unseen: []cluster.HostID{"a"}, from: "b",
			want: []string{"etcdadm recover --from b --yes --lost HOST …", "Host a is unreachable since 2026-01-02T03:04:05Z.", "Host c is unreachable.", "Of what was written later: acknowledged writes that only a, c had ARE LOST", "revision 50", "comes back with its writes"},
		},
		"two are there and at odds": {
			hosts: []cluster.LogEnd{end("b", 2, 3, 90)}, unseen: []cluster.HostID{"a", "c"}, odds: []cluster.HostID{"a", "c"}, from: "b",
			want: []string{"something answers there without telling how far its log goes: another authority", "it would give up a, c, where something answers", "may still serve"},
		},
		"one of two is at odds": {
			hosts: []cluster.LogEnd{end("b", 2, 3, 90)}, unseen: []cluster.HostID{"a"}, odds: []cluster.HostID{"a"}, from: "b",
			want: []string{"it would give up a, where something answers", "No recovery is offered"},
		},
		"a later term goes before a higher index": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 200), end("b", 2, 4, 91)}, from: "b",
			want: []string{"--from b --yes --lost HOST", "Host c is unreachable."},
		},
		"behind the record": {
			hosts: []cluster.LogEnd{end("b", 2, 3, 80)}, from: "b", want: []string{"IT LOSES WRITES", "index 90"},
		},
		"without a record": {
			hosts: []cluster.LogEnd{end("b", 2, 3, 80)}, none: true, from: "b", want: []string{"no record of how far the cluster got.\nAcknowledged writes that only a, c had ARE LOST"},
		},
		"all there": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 90), end("b", 2, 3, 95), end("c", 3, 3, 95)}, from: "b", want: []string{"no acknowledged write is lost"},
		},
		"all there, without a record": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 90), end("b", 2, 3, 95), end("c", 3, 3, 95)}, none: true, from: "b", want: []string{"no acknowledged write is lost"},
		},
		"a wiped one": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 90), {Host: "b", Intent: in}}, from: "a", want: []string{"that only b, c had ARE LOST"},
		},
		"one is being read": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 90), unread("c", 3, &cluster.LogReading{Bytes: 3 << 20, Of: 64 << 20})}, unseen: []cluster.HostID{"b"},
			want: []string{"its log is being read: 3 of 64 MiB", "run this again in a few minutes"},
		},
		"one cannot be read": {
			hosts: []cluster.LogEnd{end("a", 1, 3, 90), end("b", 2, 3, 90), unread("c", 3, nil)}, from: "a",
			want: []string{"its log cannot be read", "that only c had ARE LOST", "--from a --yes --lost HOST", "Host c answers, and has no data or none that can be read."},
		},
		"none in sight": {unseen: []cluster.HostID{"a", "b", "c"}, want: []string{"a, b, c may", "unreachable: another authority"}},
		"nothing left":  {hosts: []cluster.LogEnd{{Host: "b", Intent: in}}, want: []string{"a backup is the way"}},
		"nobody knows the voters": {
			hosts: []cluster.LogEnd{func() cluster.LogEnd { e := end("a", 1, 3, 90); e.Intent = nil; return e }()}, from: "a",
			want: []string{"nobody can say what is lost"}, never: "no acknowledged write",
		},
		"with a quorum": {hosts: []cluster.LogEnd{end("a", 1, 3, 90)}, quorum: true, from: "a", want: []string{"no recovery is needed"}, never: "keeps its whole log"},
	} {
		t.Run(name, func(t *testing.T) {
			s := survivors{Recovery: plan.Recovery{Hosts: c.hosts, Unseen: c.unseen, Incompatible: c.odds, Why: map[cluster.HostID]string{"a": "another authority"}, Quorum: c.quorum}}
			s.Since = map[cluster.HostID]time.Time{"a": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
			s.Judge()
			if !c.none {
				s.Hold(record.Revision, record.Progress())
			}
			var out bytes.Buffer
			s.print(&out)
			if s.Furthest != c.from {
				t.Errorf("furthest %q, want %q", s.Furthest, c.from)
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%q is not in:\n%s", w, out.String())
				}
			}
			if c.never != "" && strings.Contains(out.String(), c.never) {
				t.Errorf("%q is in:\n%s", c.never, out.String())
			}
			if (c.quorum || len(c.odds) > 0) == strings.Contains(out.String(), "--yes") && c.from != "" {
				t.Errorf("with a quorum, or a daemon at odds, no command, else one:\n%s", out.String())
			}
		})
	}
}

// No recovery is offered in the first minutes of a loss, nor where the store says that
// the others serve; what was typed is judged alike with and without --dry-run.
func TestRecoverWhereOthersMayServe(t *testing.T) {
	store := "--store=file://" + t.TempDir()
	if code, _, errs := runCtl(t, "--member-count=3", "--backup-"+store[2:], "--etcd-version=3.6.16", "configure-cluster"); code != ExitOK {
		t.Fatal(code, errs)
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := &cluster.Intent{Generation: 1, Write: 3, Cluster: 7, State: cluster.IntentFounded, Voters: []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}}
	at := func(after time.Duration) *cluster.Observation {
		return &cluster.Observation{
			At: began.Add(after), Store: cluster.StoreView{Read: true, Intent: in}, Spec: &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")},
			Memory: cluster.Memory{QuorumlessSince: began, Hosts: []cluster.HostMemory{{Host: "a", GapSince: began}}},
		}
	}
	c := &answering{end: cluster.LogEnd{
		Host: "c", Generation: 1, Cluster: 7, Member: 3, State: cluster.MemberStarted, HasData: true, Intent: in,
		Log: &cluster.Progress{Term: 3, Index: 90},
	}}
	endpoint := c.serve(t, "test", "c")
	c.report = console.Report{Cluster: "test", Host: "c", Leader: "c", Leading: true, Observation: &cluster.Observation{Cluster: "test"}, Contacts: []cluster.Contact{
		{Host: "a", Endpoint: "127.0.0.1:1"}, {Host: "b", Endpoint: "127.0.0.1:1"}, {Host: "c", Endpoint: endpoint},
	}}
	say := func(words ...string) (int, string) {
		code, out, errs := runEtcdadm(append(append([]string{"recover"}, words...), store, "--endpoint="+endpoint, "--cluster-name=test")...)
		return code, out + errs
	}
	c.report.Observation = at(4 * time.Second)
	if code, said := say(); code != ExitUnsafe || strings.Contains(said, "--lost") || strings.Contains(said, "--from") || !strings.Contains(said, "Host a is unreachable since 2026-01-02T03:04:05Z.") || !strings.Contains(said, "once the loss has lasted 2m0s (--dead-after), in 1m56s") {
		t.Errorf("4 s into the loss: exit code %d:\n%s", code, said)
	}
	c.report.Observation = at(2 * time.Minute)
	if code, said := say(); code != ExitUnsafe || !strings.Contains(said, "etcdadm recover --from c --yes --endpoint "+endpoint+" --cluster-name test --lost HOST") || strings.Contains(said, "--lost a") || !strings.HasSuffix(strings.TrimSpace(said), "nothing was queued") {
		t.Errorf("once it has lasted: exit code %d:\n%s", code, said)
	}
	typed := []string{"--from=c", "--lost=a", "--lost=b"}
	if code, said := say(append(typed, "--dry-run")...); code != ExitOK || !strings.Contains(said, "would queue: recover") {
		t.Errorf("dry run: exit code %d:\n%s", code, said)
	}
	opened, err := openForWords(t.Context(), strings.TrimPrefix(store, "--store="), toWrite)
	if err != nil {
		t.Fatal(err)
	}
	f := control.New(opened, "")
	status := control.Status{Cluster: "test", Leader: "a", At: began.Add(time.Minute), Members: []control.MemberStatus{{Host: "a", Up: true}, {Host: "b", Up: true}, {Host: "c"}}}
	if err := f.WriteStatus(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--dry-run", "--yes"} {
		if code, said := say(append(typed, how)...); code != ExitUnsafe || !strings.Contains(said, "host a, which does not answer here, wrote into the backup store at 2026-01-02T03:05:05Z that 2 of 3 voters are up") || strings.Contains(said, "added") {
			t.Errorf("%s while the others serve: exit code %d:\n%s", how, code, said)
		}
	}
	status.At = began.Add(-time.Minute) // before the loss it says nothing
	if err := f.WriteStatus(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	if code, said := say(append(typed, "--yes")...); code != ExitOK || !strings.Contains(said, "added recover command") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

// A cluster with a quorum is not told to be refused and then to say --yes.
func TestRecoverOfAHealthyCluster(t *testing.T) {
	s := survivors{Recovery: plan.Recovery{Quorum: true}}
	var out bytes.Buffer
	s.print(&out)
	if said := out.String(); !strings.Contains(said, "no recovery is needed") || strings.Contains(said, "refused") {
		t.Errorf("it says:\n%s", said)
	}
}

// answering is a daemon as far as people's questions go.
type answering struct {
	peer.Handler
	report console.Report
	end    cluster.LogEnd
	served console.Served
}

func (a *answering) Report(_ context.Context, _ peer.Caller, question json.RawMessage) (json.RawMessage, error) {
	var q console.Question
	if err := json.Unmarshal(question, &q); err != nil {
		return nil, err
	}
	switch q.Kind {
	case console.AskStatus:
		return json.Marshal(a.report)
	case console.AskLog:
		return json.Marshal(a.end)
	case console.AskServed:
		return json.Marshal(a.served)
	}
	return nil, errors.New("nobody asks that here")
}

// serve has a daemon answer in the name of a host of a cluster, and says where.
func (a *answering) serve(t *testing.T, of string, host cluster.HostID) string {
	t.Helper()
	return serveDaemon(t, of, host, a)
}

func serveDaemon(t *testing.T, of string, host cluster.HostID, h peer.Handler) string {
	t.Helper()
	s, err := peer.NewServer(peer.ServerOptions{Cluster: of, Host: host, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// A daemon that answers and is not understood is given up neither by the command that is
// named nor by one that somebody types, of a recovery or a restore; one whose address nobody, or another host,
// answers at is.
func TestRecoverKeepsDaemonsAtOdds(t *testing.T) {
	store := "--store=file://" + t.TempDir()
	if code, _, errs := runCtl(t, "--member-count=3", "--backup-"+store[2:], "--etcd-version=3.6.16", "configure-cluster"); code != ExitOK {
		t.Fatal(code, errs)
	}
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}}
	c := &answering{end: cluster.LogEnd{
		Host: "c", Generation: 1, Cluster: 7, Member: 3, State: cluster.MemberStarted, HasData: true, Intent: in,
		Log: &cluster.Progress{Term: 3, Index: 90},
	}}
	at := c.serve(t, "test", "c")
	c.report = console.Report{Cluster: "test", Host: "c", Leader: "c", Leading: true, Observation: &cluster.Observation{Cluster: "test"}, Contacts: []cluster.Contact{
		{Host: "a", Endpoint: (&answering{}).serve(t, "another", "a")},
		{Host: "b", Endpoint: "127.0.0.1:1"}, // a port that nobody has
		{Host: "c", Endpoint: at},
		{Host: "d", Endpoint: (&answering{}).serve(t, "test", "e")},
	}}
	run := func(words ...string) (int, string) {
		code, out, errs := runEtcdadm(append(words, store, "--endpoint="+at, "--cluster-name=test")...)
		return code, out + errs
	}
	for _, r := range []struct {
		line        string
		code        int
		want, never string
	}{
		{"recover", ExitUnsafe, "it would give up a, where something answers", "--lost a"},
		{"recover --from c --lost a --lost b --dry-run", ExitUnsafe, "host a is named as lost, but its daemon", "would queue"},
		{"recover --from c --lost a --lost b --yes", ExitUnsafe, "nothing was queued: host a is named as lost, but its daemon", "added"},
		{"recover --from c --lost 1 --lost b --yes", ExitUnsafe, "nothing was queued: host a is named as lost", "added"},
		{"recover --from c --lost b --lost d --members 4 --dry-run", ExitUsage, "1, 3, 5, 7 or 9 members", "would queue"},
		{"recover --from c --lost b --lost d --members 5 --dry-run", ExitOK, "would queue: recover", ""},
		{"recover --from c --lost b --lost d --yes", ExitOK, "added recover command", ""},
	} {
		if code, said := run(strings.Fields(r.line)...); code != r.code || !strings.Contains(said, r.want) || r.never != "" && strings.Contains(said, r.never) {
			t.Errorf("%s: exit code %d, want %d, %q and never %q:\n%s", r.line, code, r.code, r.want, r.never, said)
		}
	}
	_, url := aStore(t)
	for lost, want := range map[string]int{"a": ExitUnsafe, "b": ExitOK, "d": ExitOK} {
		for _, how := range []string{"--dry-run", "--yes"} {
			r := etcdadm(t, "restore", fixtureBackup, "--store", url, "--endpoint="+at, "--cluster-name=test", "--lost", lost, how)
			if r.code != want || want == ExitUnsafe && !strings.Contains(r.errs, "nothing was queued: host "+lost+" is named as lost, but its daemon") {
				t.Errorf("restore --lost %s %s: %+v", lost, how, r)
			}
		}
	}
}

// A host that starts, or cannot look at its disk, is told with its own word for it, and
// not as one without data; and nobody gives it up, since it may come up with the furthest
// log.
func TestRecoverSaysWhichDiskIsSilent(t *testing.T) {
	const word = "the host is starting, and it has been waiting since 2026-11-22T20:00:00Z for its state to be read from disk"
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: []cluster.Voter{{Host: "a", Member: 1}, {Host: "c", Member: 3}}}
	c := &answering{end: cluster.LogEnd{
		Host: "c", Generation: 1, Cluster: 7, Member: 3, State: cluster.MemberStarted, HasData: true, Intent: in,
		Log: &cluster.Progress{Term: 3, Index: 90},
	}}
	at := c.serve(t, "test", "c")
	c.report = console.Report{Cluster: "test", Host: "c", Leader: "c", Leading: true, Observation: &cluster.Observation{Cluster: "test"}, Contacts: []cluster.Contact{
		{Host: "a", Endpoint: (&answering{end: cluster.LogEnd{Host: "a", Unknown: word}}).serve(t, "test", "a")},
		{Host: "c", Endpoint: at},
	}}
	_, url := aStore(t)
	const refused = "host a is named as lost, but its daemon's address answers without telling how far its log goes: " + word
	for line, want := range map[string]string{
		"recover":                                      "without telling how far its log goes: " + word,
		"recover --from c --lost a --dry-run":          refused,
		"recover --from c --lost a --yes":              "nothing was queued: " + refused,
		"recover --from c --lost 1 --yes":              "nothing was queued: " + refused,
		"restore " + fixtureBackup + " --lost a --yes": "nothing was queued: " + refused,
	} {
		code, out, errs := runEtcdadm(append(strings.Fields(line), "--store="+url, "--endpoint="+at, "--cluster-name=test")...)
		if said := out + errs; code != ExitUnsafe || !strings.Contains(said, want) || strings.Contains(said, "none") || strings.Contains(said, "--lost a") || strings.Contains(said, "added") {
			t.Errorf("%s: exit code %d, and it says:\n%s", line, code, said)
		}
	}
}
