package cluster

import "testing"

func TestTurnsTLSOn(t *testing.T) {
	for _, c := range []struct {
		plain, secure []string
		want          bool
	}{
		{[]string{"http://a:1"}, []string{"https://a:1"}, true},
		{[]string{"http://a:1", "https://b:1"}, []string{"https://b:1", "https://a:1"}, true},
		{[]string{"http://a:1"}, []string{"http://a:1"}, false},
		{[]string{"https://a:1"}, []string{"https://a:1"}, false},
		{[]string{"https://a:1"}, []string{"http://a:1"}, false},
		{[]string{"http://a:1"}, []string{"https://a:2"}, false},
		{[]string{"http://a:1", "http://b:1"}, []string{"https://a:1"}, false},
		{[]string{"http://a:1", "http://b:1"}, []string{"https://a:1", "http://b:1"}, false},
		{nil, nil, false},
	} {
		if got := TurnsTLSOn(c.plain, c.secure); got != c.want {
			t.Errorf("%v to %v: %t", c.plain, c.secure, got)
		}
	}
}
