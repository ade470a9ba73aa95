package adoption_test

import (
	"errors"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
)

// A member that advertises localhost is asked at the URLs that a person named, and only
// its own answer counts.
func TestAskMember(t *testing.T) {
	answers := map[string]cluster.MemberStatus{
		"http://10.0.0.1:2379": {Member: 1}, "http://10.0.0.2:2379": {Member: 2}, "http://localhost:2379": {Member: 1}, "http://auth:1": {Auth: true},
	}
	ask := func(u string) (cluster.MemberStatus, error) {
		st, is := answers[u]
		if !is {
			return st, errors.New("connection refused at " + u)
		}
		return st, nil
	}
	named := []string{"http://10.0.0.1:2379", "http://10.0.0.2:2379"}
	for _, c := range []struct {
		id         cluster.MemberID
		advertises string
		named      []string
		want       string // where it answered, or after "!" a part of the error
	}{
		{1, "http://10.0.0.1:2379", nil, "http://10.0.0.1:2379"},
		{1, "http://localhost:2379", named, "http://localhost:2379"},
		{2, "http://localhost:2379", named, "http://10.0.0.2:2379"},
		{2, "http://127.0.0.1:9", named, "http://10.0.0.2:2379"},
		{1, "", named, "http://10.0.0.1:2379"},
		{3, "http://auth:1", named, "http://auth:1"},
		{3, "http://localhost:2379", named, "!where each machine reaches its own etcd; name a URL of this member"},
		{3, "http://localhost:2379", nil, "!member 1 answers at http://localhost:2379"},
		{3, "http://10.0.0.9:1", named, "!connection refused"},
		{3, "", nil, "!it advertises no client URL"},
	} {
		m := cluster.Member{ID: c.id}
		if c.advertises != "" {
			m.ClientURLs = []string{c.advertises}
		}
		st, at, err := adoption.AskMember(m, c.named, ask)
		if part, fails := strings.CutPrefix(c.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), part) || part == "connection refused" && strings.Contains(err.Error(), "each machine") {
				t.Errorf("member %d at %q: %v, want %q", c.id, c.advertises, err, part)
			}
			continue
		}
		if err != nil || at != c.want || st.Member != c.id && !st.Auth {
			t.Errorf("member %d at %q: %+v at %q, %v", c.id, c.advertises, st, at, err)
		}
	}
}
