package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"etcdadm.io/cluster"
)

func TestNamesThatAreNone(t *testing.T) {
	for _, s := range []string{
		"", ".", "..", "control", "../2026-11-20T23:08:18Z-000005", "2026-11-20T23:08:18Z-000005/", "2026-11-20T23:08:18Z-000005/..",
		"2026-11-20T23:08:18Z-00005", "2026-11-20T23:08:18Z-0000005", "2026-11-20T23:08:18+01:00-000005", "2026-13-20T23:08:18Z-000005",
		"2026-02-30T23:08:18Z-000005", "2026-11-20T23:08:60Z-000005", "2026-11-20 23:08:18Z-000005", "2026-11-20T23:08:18Z-00000a",
		"2026-11-20T23:08:18Z-000005\n", " 2026-11-20T23:08:18Z-000005", "2026-11-20T23:08:18Z-００0005", strings.Repeat("2", 5000),
	} {
		n, err := ParseName(s)
		if !errors.Is(err, ErrName) || n != "" {
			t.Errorf("%.50q gave %q, %v", s, n, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error about %.50q has %d bytes", s, len(err.Error()))
		}
	}
	for _, at := range []time.Time{time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if n, err := NewName(at, 1); !errors.Is(err, ErrName) {
			t.Errorf("%v gave %q, %v", at, n, err)
		}
	}
	for _, counter := range []int{-1, MaxCounter + 1} {
		if n, err := NewName(time.Unix(0, 0), counter); !errors.Is(err, ErrName) {
			t.Errorf("counter %d gave %q, %v", counter, n, err)
		}
	}
	if !Name("../../etc/passwd").Time().IsZero() {
		t.Error("a name that is none has a time")
	}
}

// A name says its second, is read back the same, is one segment of a path, and
// sorts as its time does.
func TestNamesSortAsTheirTimes(t *testing.T) {
	draw := func(t *rapid.T, label string) (Name, time.Time, int) {
		at := time.Unix(rapid.Int64Range(-62167219200, lastSecond).Draw(t, label), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		counter := rapid.IntRange(0, MaxCounter).Draw(t, "counter")
		n, err := NewName(at, counter)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseName(n.String())
		if err != nil || again != n || !n.Time().Equal(time.Unix(at.Unix(), 0)) || strings.ContainsAny(n.String(), `/\`) {
			t.Fatalf("%v, %d became %q, which says %v; %v", at, counter, n, n.Time(), err)
		}
		return n, at, counter
	}
	rapid.Check(t, func(t *rapid.T) {
		a, at, ac := draw(t, "a")
		b, bt, bc := draw(t, "b")
		want := time.Unix(at.Unix(), 0).Compare(time.Unix(bt.Unix(), 0))
		if want == 0 {
			want = ac - bc
		}
		if got := a.Compare(b); (got < 0) != (want < 0) || (got > 0) != (want > 0) {
			t.Fatalf("%q and %q compare as %d", a, b, got)
		}
	})
}

func TestEveryEncodingHasItsFile(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []Compression{Gzip, Zstd, None} {
		for _, encrypted := range []bool{false, true} {
			e := Encoding{c, encrypted}
			file := e.File()
			if got, ok := EncodingOf(file); !ok || got != e || seen[file] {
				t.Errorf("%+v has the file %q, which is %+v", e, file, got)
			}
			if (file == "etcd.backup.gz") != (e == Encoding{Compression: Gzip}) {
				t.Errorf("%+v has the file %q", e, file)
			}
			seen[file] = true
		}
	}
	if f := (Encoding{"lzma", false}).File(); f != "" {
		t.Errorf("an unknown compression has the file %q", f)
	}
	if got, ok := PreferredFile([]string{FileMeta, "etcd.backup.db.age", "etcd.backup.zst"}); !ok || got != "etcd.backup.zst" {
		t.Errorf("preferred %q, %v", got, ok)
	}
	if got, ok := PreferredFile([]string{FileMeta, FileManifest, "README"}); ok {
		t.Errorf("took %q for a snapshot", got)
	}
	for text, want := range map[string]Compression{"": Gzip, "gzip": Gzip, "zstd": Zstd, "none": None} {
		if got, err := ParseCompression(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseCompression("lzma"); err == nil {
		t.Error("lzma is accepted")
	}
}

// The empty text is no name, and anything else that is none is an error.
func TestNameOfText(t *testing.T) {
	for text, want := range map[string]bool{"": true, "2026-11-20T23:08:18Z-000005": true, "x": false} {
		n := Name("before")
		if err := n.UnmarshalText([]byte(text)); (err == nil) != want || want && string(n) != text {
			t.Errorf("%q: %q, %v", text, n, err)
		}
	}
}

func TestMeta(t *testing.T) {
	want := Meta{
		EtcdVersion: cluster.MustVersion("3.5.35"), Timestamp: time.Unix(1795216397, 0).UTC(),
		MemberCount: 3, SpecVersion: cluster.MustVersion("3.5.35"),
	}
	for _, text := range []string{
		"{\n  \"etcdVersion\":  \"3.5.35\",\n  \"timestamp\":  \"1795216397\",\n  \"clusterSpec\":  {\n    \"memberCount\":  3,\n    \"etcdVersion\":  \"3.5.35\"\n  }\n}",
		`{"etcd_version":"v3.5.35","timestamp":1795216397,"cluster_spec":{"member_count":"3","etcd_version":"3.5.35"},"more":[1]}`,
		string(want.Format()),
	} {
		got, err := ParseMeta([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	old, err := ParseMeta([]byte(`{"etcdVersion":"2.2.1","clusterSpec":null,"timestamp":null}`))
	if err != nil || !old.V2() || !old.Timestamp.IsZero() {
		t.Errorf("%+v, %v", old, err)
	}
	if got := string(old.Format()); got != "{\n  \"etcdVersion\": \"2.2.1\"\n}\n" {
		t.Errorf("wrote %s", got)
	}
	for _, text := range []string{
		"", "null", "[]", "{}", `{"etcdVersion":""}`, `{"etcdVersion":3}`, `{"etcdVersion":"3.5"}`, `{"etcdVersion":"3.5.35"} {}`,
		`{"etcdVersion":"3.5.35","etcd_version":"3.5.34"}`, `{"etcdVersion":"3.5.35","timestamp":"x"}`, `{"etcdVersion":"3.5.35","timestamp":1.5}`,
		`{"etcdVersion":"3.5.35","timestamp":"99999999999999"}`, `{"etcdVersion":"3.5.35","clusterSpec":[]}`, `{"etcdVersion":"3.5.35","clusterSpec":{"memberCount":"x"}}`, `{"etcdVersion":"3.5.35","clusterSpec":{"etcdVersion":"x"}}`,
		`{"etcdVersion":"3.5.35"`,
	} {
		if m, err := ParseMeta([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s gave %+v, %v", text, m, err)
		}
	}
}

// The other program refuses a meta with a key that it does not know.
func TestMetaHasNoOtherKeys(t *testing.T) {
	m := Meta{EtcdVersion: cluster.MustVersion("3.7.3"), Timestamp: time.Unix(1, 0), MemberCount: 1, SpecVersion: cluster.MustVersion("3.7.3")}
	var got map[string]any
	if err := json.Unmarshal(m.Format(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"etcdVersion": "3.7.3", "timestamp": "1", "clusterSpec": map[string]any{"memberCount": 1.0, "etcdVersion": "3.7.3"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func fullManifest() Manifest {
	keys := int64(5000)
	return Manifest{
		Format: 1, Cluster: "etcd", ClusterID: 1, MemberID: 2, Host: "a", Reason: ReasonPeriodic,
		EtcdVersion: cluster.MustVersion("3.7.3"), StorageVersion: "3.7.0",
		Position: Position{Revision: 72, Term: 3, Index: 90, Keys: &keys, Hash: &Hash{1, 72, 10}},
		Snapshot: Content{4128, strings.Repeat("ab", 32)}, Stored: Content{1000, strings.Repeat("cd", 32)},
		File: "etcd.backup.gz.age", Encoding: Encoding{Gzip, true}, Recipients: []string{"age1…"}, Pinned: "audit",
		Started: time.Unix(1795216397, 0).UTC(), Duration: time.Second,
		Verifications: []Verification{{At: time.Unix(1795216399, 0).UTC(), Host: "b", Depth: DepthStored, OK: true, Keys: &keys, Revision: 72, Duration: time.Second, Problem: "none"}},
	}
}

func TestManifest(t *testing.T) {
	kept := fullManifest() // which a release that does not know KeepUntil must not write over
	kept.Format, kept.KeepUntil = 2, time.Unix(1803000000, 0).UTC()
	for _, m := range []Manifest{fullManifest(), {Format: 1}, kept} {
		got, err := ParseManifest(m.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := ParseManifest([]byte(`{"format":1,"fromLater":{"x":1}}`)); err != nil {
		t.Errorf("an unknown key: %v", err)
	}
	m, err := ParseManifest([]byte(`{"format":3,"host":"a"}`))
	if !errors.Is(err, ErrNewer) || !errors.Is(err, ErrMalformed) || m.Host != "a" {
		t.Errorf("a later format: %+v, %v", m, err)
	}
	for _, text := range []string{
		"", "null", "{}", `{"format":1} x`, `{"format":1,"file":"../x"}`, `{"format":1,"file":"etcd.backup.gz","encoding":{"compression":"zstd"}}`,
		`{"format":1,"stored":{"size":1,"sha256":"AB"}}`, `{"format":1,"stored":{"size":-1,"sha256":"` + strings.Repeat("ab", 32) + `"}}`,
		`{"format":1,"stored":{"size":1,"sha256":"` + strings.Repeat("AB", 32) + `"}}`,
	} {
		if m, err := ParseManifest([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s gave %+v, %v", text, m, err)
		}
	}
}

// Only the last verification counts, and their number is bounded.
func TestVerifications(t *testing.T) {
	var m Manifest
	if m.Proven() || (*Manifest)(nil).Proven() {
		t.Error("proven by nothing")
	}
	for i := range 50 {
		before := slices.Clone(m.Verifications)
		same := m.Verifications
		m.Add(Verification{Revision: int64(i), OK: i%2 == 0})
		if m.Proven() != (i%2 == 0) {
			t.Errorf("after %d: %v", i, m.Proven())
		}
		if diff := cmp.Diff(before, same); diff != "" {
			t.Errorf("a copy changed: %s", diff)
		}
	}
	if n := len(m.Verifications); n != mostVerifications || m.Verifications[n-1].Revision != 49 {
		t.Errorf("%d are left", n)
	}
}

// How far a snapshot goes, and how many keys it has, is what a look found that ended well,
// the latest first, then what was found as it was written, then what was said before.
func TestWhatIsKnownOfASnapshot(t *testing.T) {
	n := func(keys int64) *int64 { return &keys }
	look := func(ok bool, revision int64, keys *int64) Verification {
		return Verification{OK: ok, Revision: revision, Keys: keys}
	}
	for name, test := range map[string]struct {
		m        *Manifest
		revision int64
		exact    bool
		keys     *int64
	}{
		"nothing":                  {nil, 0, false, nil},
		"empty":                    {&Manifest{}, 0, false, nil},
		"said before":              {&Manifest{Position: Position{Revision: 7, Keys: n(70)}}, 7, false, n(70)},
		"found as it was written":  {&Manifest{Position: Position{Revision: 7, Keys: n(70)}, Contents: Contents{Revision: 8, Keys: n(80)}}, 8, true, n(80)},
		"found by the one look":    {&Manifest{Contents: Contents{Revision: 8, Keys: n(80)}, Verifications: []Verification{look(true, 9, n(90))}}, 9, true, n(90)},
		"found by the latest look": {&Manifest{Verifications: []Verification{look(true, 9, n(90)), look(true, 10, n(100))}}, 10, true, n(100)},
		"the latest look failed":   {&Manifest{Verifications: []Verification{look(true, 9, n(90)), look(false, 10, n(100))}}, 9, true, n(90)},
		"the latest look saw less": {&Manifest{Verifications: []Verification{look(true, 9, n(90)), look(true, 0, nil)}}, 9, true, n(90)},
		"as far as was said":       {&Manifest{Position: Position{Revision: 9}, Verifications: []Verification{look(true, 9, n(0))}}, 9, true, n(0)},
		"not as far as was said":   {&Manifest{Position: Position{Revision: 9}, Verifications: []Verification{look(true, 8, n(-1))}}, 9, false, nil},
		"found nothing, said 0":    {&Manifest{Contents: Contents{Revision: 8}, Verifications: []Verification{look(true, 0, nil)}}, 8, true, nil},
	} {
		revision, exact := test.m.Revision()
		if revision != test.revision || exact != test.exact {
			t.Errorf("%s: %d, exact %v", name, revision, exact)
		}
		if diff := cmp.Diff(test.keys, test.m.Keys()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A backup that is given twice is kept for what is said of it either time, and the edge of
// a window is outside of it.
func TestExpireAtTheEdges(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	name := func(ago time.Duration) Name {
		n, err := NewName(now.Add(-ago), 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	newest := Candidate{Name: name(0)}
	for _, test := range []struct {
		policy Policy
		twice  []Candidate // of one name
		ago    time.Duration
		want   []Rule
	}{
		{Policy{All: time.Hour}, []Candidate{{}}, time.Hour - time.Second, []Rule{KeptRecent}},
		{Policy{All: time.Hour}, []Candidate{{}}, time.Hour, []Rule{RemovedOld}},
		{Policy{}, []Candidate{{}, {Used: "a"}}, time.Hour, []Rule{KeptUsed}},
		{Policy{}, []Candidate{{Used: "a"}, {}}, time.Hour, []Rule{KeptUsed}},
		{Policy{}, []Candidate{{}, {Pinned: "a"}}, time.Hour, []Rule{KeptPinned}},
		{Policy{}, []Candidate{{Pinned: "a"}, {}}, time.Hour, []Rule{KeptPinned}},
		{Policy{}, []Candidate{{}, {Proven: true}}, time.Hour, []Rule{KeptNewestProven}},
		{Policy{}, []Candidate{{Proven: true}, {}}, time.Hour, []Rule{KeptNewestProven}},
		{Policy{}, []Candidate{{}, {Retained: true}}, time.Hour, []Rule{KeptRetained}},
		{Policy{}, []Candidate{{Retained: true}, {}}, time.Hour, []Rule{KeptRetained}},
		{Policy{}, []Candidate{{}, {KeepUntil: now.Add(1)}}, time.Hour, []Rule{KeptUntil}},
		{Policy{}, []Candidate{{KeepUntil: now.Add(1)}, {}}, time.Hour, []Rule{KeptUntil}},
		{Policy{}, []Candidate{{KeepUntil: now.Add(1)}, {KeepUntil: now.Add(-1)}}, time.Hour, []Rule{KeptUntil}},
		{Policy{}, []Candidate{{KeepUntil: now}}, time.Hour, []Rule{RemovedOld}},
		{Policy{Last: 1}, []Candidate{{}}, time.Hour, []Rule{RemovedOld}},
		{Policy{Last: 2}, []Candidate{{}}, time.Hour, []Rule{KeptLast}},
		{Policy{Hourly: time.Hour}, []Candidate{{}}, 30 * time.Minute, []Rule{KeptHourly}},
		{Policy{Hourly: time.Hour}, []Candidate{{}}, time.Hour + 30*time.Minute, []Rule{RemovedOld}}, // its hour ended an hour ago
		{Policy{Hourly: 2 * time.Hour}, []Candidate{{}}, 2*time.Hour + 30*time.Minute, []Rule{RemovedOld}},
	} {
		all := []Candidate{newest}
		for _, c := range test.twice {
			c.Name = name(test.ago)
			all = append(all, c)
		}
		got := Expire(test.policy, all, now)
		if len(got) != 2 || !slices.Equal(got[1].Rules, test.want) {
			t.Errorf("%+v, %+v, %s ago: %+v, want %v", test.policy, test.twice, test.ago, got, test.want)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"etcd_version":"v3.5.35","timestamp":1795216397,"cluster_spec":{"member_count":"3"}}`))
	m := fullManifest()
	f.Add(m.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if meta, err := ParseMeta(data); err == nil {
			again, err := ParseMeta(meta.Format())
			if diff := cmp.Diff(meta, again); err != nil || diff != "" {
				t.Fatalf("%v, %s", err, diff)
			}
		}
		if m, err := ParseManifest(data); err == nil {
			again, err := ParseManifest(m.Encode())
			if err != nil || string(again.Encode()) != string(m.Encode()) {
				t.Fatalf("%v: %s became %s", err, m.Encode(), again.Encode())
			}
		}
	})
}

// FuzzName: a name is one part of a path, and reads back as it was written.
func FuzzName(f *testing.F) {
	for _, s := range []string{"", "2026-11-20T23:08:18Z-000005", "2026-02-30T23:08:18Z-000005", "../2026-11-20T23:08:18Z-000005", "2026-11-20T23:08:18Z-000005/x", "0000-01-01T00:00:00Z-999999", "a/b\\c\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			if !errors.Is(err, ErrName) || len(err.Error()) > 500 {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if n.String() != s || strings.ContainsAny(s, "/\\\x00 ") || strings.Contains(s, "..") {
			t.Fatalf("%q is taken for the name %q", s, n)
		}
		counter, _ := strconv.Atoi(s[strings.LastIndexByte(s, '-')+1:])
		if again, err := NewName(n.Time(), counter); err != nil || again != n {
			t.Fatalf("%q became %q, %v", s, again, err)
		}
	})
}

// TestScenarios runs testdata/scenarios; -rewrite writes them anew.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "expire":
				return expireScenario(t, d)
			case "due":
				return dueScenario(t, d)
			}
			t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

func expireScenario(t *testing.T, d *datadriven.TestData) string {
	p := DefaultPolicy()
	now := argTime(t, d, "now")
	for key, into := range map[string]*time.Duration{"all": &p.All, "hourly": &p.Hourly, "daily": &p.Daily} {
		if d.HasArg(key) {
			*into = argDuration(t, d, key)
		}
	}
	d.MaybeScanArgs(t, "last", &p.Last)
	var all []Candidate
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		c := Candidate{Name: Name(words[0])}
		for _, w := range words[1:] {
			switch w {
			case "proven":
				c.Proven = true
			case "pinned":
				c.Pinned = w
			case "used":
				c.Used = w
			case "retained":
				c.Retained = true
			default:
				t.Fatalf("%s: %q", d.Pos, w)
			}
		}
		all = append(all, c)
	}
	var b strings.Builder
	for _, v := range Expire(p, all, now) {
		what := "remove"
		if v.Keep {
			what = "keep  "
		}
		fmt.Fprintf(&b, "%s %s", what, v.Name)
		for _, r := range v.Rules {
			fmt.Fprintf(&b, " %s", r)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func dueScenario(t *testing.T, d *datadriven.TestData) string {
	now := argTime(t, d, "now")
	past := Past{}
	if d.HasArg("last") {
		past.Last = argTime(t, d, "last")
	}
	if d.HasArg("failed") {
		past.Failed = argTime(t, d, "failed")
	}
	d.MaybeScanArgs(t, "failures", &past.Failures)
	at, scheduled := Due(Schedule{argDuration(t, d, "interval")}, past, now)
	switch {
	case !scheduled:
		return "never\n"
	case at.After(now):
		return fmt.Sprintf("in %s\n", at.Sub(now))
	}
	return fmt.Sprintf("now, since %s\n", now.Sub(at))
}

func argTime(t *testing.T, d *datadriven.TestData, key string) time.Time {
	t.Helper()
	var s string
	d.ScanArgs(t, key, &s)
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return at
}

func argDuration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	var s string
	d.ScanArgs(t, key, &s)
	v, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return v
}

func TestLast(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	names := []Name{"2026-11-20T11:00:00Z-000005", "2026-11-20T12:00:01Z-000005", "2026-11-20T11:30:00Z-000005", "2199-11-20T11:30:00Z-000005", "none"}
	if got := Last(names, now); !got.Equal(now.Add(-30 * time.Minute)) {
		t.Errorf("got %v", got)
	}
	if got := Last(nil, now); !got.IsZero() {
		t.Errorf("got %v", got)
	}
}
