package kept

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
)

// Half of the hosts is no majority. A write that too few hosts copied failed, and leaves no copy on a host that
// answers.
func TestHalfOfTheHostsIsTooFew(t *testing.T) {
	for _, c := range []struct {
		hosts, away []cluster.HostID
		enough      bool
	}{
		{[]cluster.HostID{"a"}, nil, true},
		{[]cluster.HostID{"a", "b"}, nil, true},
		{[]cluster.HostID{"a", "b"}, []cluster.HostID{"b"}, false},
		{[]cluster.HostID{"a", "b", "c", "d"}, []cluster.HostID{"d"}, true},
		{[]cluster.HostID{"a", "b", "c", "d"}, []cluster.HostID{"c", "d"}, false},
		{[]cluster.HostID{"a", "b", "c", "d", "e"}, []cluster.HostID{"d", "e"}, true},
		{[]cluster.HostID{"a", "b", "c", "d", "e"}, []cluster.HostID{"c", "d", "e"}, false},
	} {
		s := newSite(c.hosts...)
		for _, h := range c.away {
			s.turnOff(h, true)
		}
		_, err := s.stores["a"].Put(t.Context(), "backup/x", strings.NewReader("x"), blob.IfAbsent)
		if enough := err == nil; enough != c.enough {
			t.Errorf("%d hosts, %d away: %v", len(c.hosts), len(c.away), err)
		}
		left := 0
		for _, h := range c.hosts {
			if _, _, err := blob.ReadAll(t.Context(), s.own[h], "backup/x", 10); err == nil {
				left++
			}
		}
		if want := len(c.hosts) - len(c.away); c.enough && left != want || !c.enough && left != 0 {
			t.Errorf("%d hosts, %d away: %d copies are left", len(c.hosts), len(c.away), left)
		}
	}
}

// A write over what was there leaves what it has: no other host may hold the former content.
func TestTooFewCopiesOfAnotherContent(t *testing.T) {
	s := newSite("a", "b", "c")
	for _, text := range []string{"1", "2"} {
		if _, err := s.stores["a"].Put(t.Context(), "backup/x", strings.NewReader(text), blob.Any); (err == nil) != (text == "1") {
			t.Fatalf("write %s: %v", text, err)
		}
		s.turnOff("b", true)
		s.turnOff("c", true)
	}
	if data, _, err := blob.ReadAll(t.Context(), s.own["a"], "backup/x", 10); err != nil || string(data) != "2" {
		t.Errorf("host a has %q, %v", data, err)
	}
}

// A whole read gives what a majority of the hosts have alike, and never takes silence for absence.
func TestWholeReadNeedsMajority(t *testing.T) {
	for name, c := range map[string]struct {
		has    map[cluster.HostID]string
		away   []cluster.HostID
		want   string
		absent bool
	}{
		"all":                       {map[cluster.HostID]string{"a": "x", "b": "x", "c": "x", "d": "x"}, nil, "x", false},
		"three of four":             {map[cluster.HostID]string{"b": "x", "c": "x", "d": "x"}, nil, "x", false},
		"half":                      {map[cluster.HostID]string{"a": "x", "b": "x"}, nil, "", false},
		"one":                       {map[cluster.HostID]string{"b": "x"}, nil, "", true},
		"two contents":              {map[cluster.HostID]string{"a": "x", "b": "x", "c": "y", "d": "y"}, nil, "", false},
		"none, and two are silent":  {nil, []cluster.HostID{"c", "d"}, "", false},
		"none, and one is silent":   {nil, []cluster.HostID{"d"}, "", true},
		"three, and one is silent":  {map[cluster.HostID]string{"a": "x", "b": "x", "c": "x"}, []cluster.HostID{"d"}, "x", false},
		"three, and one of them is": {map[cluster.HostID]string{"a": "x", "b": "x", "c": "x"}, []cluster.HostID{"c"}, "", false},
	} {
		s := newSite("a", "b", "c", "d")
		for h, text := range c.has {
			if _, err := blob.PutBytes(t.Context(), s.own[h], "backup/x", []byte(text), blob.Any); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range c.away {
			s.turnOff(h, true)
		}
		data, _, err := blob.ReadAll(blob.Whole(t.Context()), s.stores["a"], "backup/x", 10)
		if string(data) != c.want || (err == nil) != (c.want != "") || errors.Is(err, blob.ErrNotFound) != c.absent {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// A backup whose last file only a minority of the hosts took is told as failed, whatever one of them has.
func TestBackupOfAMinorityIsNotTaken(t *testing.T) {
	database := bytes.Repeat([]byte("0123456789abcdef"), 256)
	sum := sha256.Sum256(database)
	for _, c := range []struct {
		away  []cluster.HostID
		fails bool
	}{{[]cluster.HostID{"d"}, false}, {[]cluster.HostID{"c", "d"}, true}} {
		s := newSite("a", "b", "c", "d")
		s.fetched = func(key string) { // the hosts go right before the file that makes it a backup
			if strings.HasSuffix(key, "/"+backup.FileMeta) {
				for _, h := range c.away {
					s.turnOff(h, true)
				}
			}
		}
		b, err := backupstore.New(s.stores["a"]).Write(t.Context(), backupstore.Request{
			Meta: backup.Meta{EtcdVersion: cluster.MustVersion("3.5.0")},
		}, bytes.NewReader(append(database, sum[:]...)))
		if fails := err != nil; fails != c.fails {
			t.Errorf("%d of 4 hosts are away: %v, %v", len(c.away), b.Name, err)
		}
		for _, h := range c.away {
			s.turnOff(h, false)
		}
		list, err := s.stores["d"].List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for _, o := range list {
			listed = listed || strings.HasSuffix(o.Key, "/"+backup.FileMeta)
		}
		if listed == c.fails {
			t.Errorf("%d of 4 hosts are away: it is listed: %v", len(c.away), listed)
		}
	}
}
