package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSpecSentences(t *testing.T) {
	v := MustVersion("3.6.16")
	for _, c := range []struct {
		spec Spec
		says string // empty: accepted
	}{
		{Spec{MemberCount: 1, EtcdVersion: v}, ""},
		{Spec{MemberCount: 9, EtcdVersion: v}, ""},
		{Spec{MemberCount: 3, EtcdVersion: v, Hosts: []HostID{"a", "b", "c"}}, ""},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("3.5.3")}, ""},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("3.4.45")}, ""},
		{Spec{EtcdVersion: v}, "missing or zero"},
		{Spec{MemberCount: -3, EtcdVersion: v}, "-3 is negative"},
		{Spec{MemberCount: 2, EtcdVersion: v}, "even; it survives no more failures than 1, ask for 1 or 3"},
		{Spec{MemberCount: 8, EtcdVersion: v}, "ask for 7 or 9"},
		{Spec{MemberCount: 10, EtcdVersion: v}, "beyond the largest supported, 9"},
		{Spec{MemberCount: 1 << 40, EtcdVersion: v}, "beyond the largest supported"},
		{Spec{MemberCount: 3}, "the etcd version is missing; name one, such as"},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("3.5.2")}, "can lose data"},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("3.5.0")}, "can lose data"},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("3.1.20")}, "3.1.20"},
		{Spec{MemberCount: 3, EtcdVersion: MustVersion("4.0.0")}, "4.0.0"},
		{Spec{MemberCount: 3, EtcdVersion: v, DeadAfter: -time.Second}, "-1s is negative"},
		{Spec{MemberCount: 3, EtcdVersion: v, Hosts: []HostID{"a", "b"}}, "3 members on 2 named hosts"},
		{Spec{MemberCount: 1, EtcdVersion: v, Hosts: []HostID{"a", "a"}}, `names "a" twice`},
		{Spec{MemberCount: 1, EtcdVersion: v, Hosts: []HostID{""}}, "not at all"},
	} {
		err := c.spec.Validate()
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%+v is refused: %v", c.spec, err)
		case c.says != "" && (!errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v, which does not say %q", c.spec, err, c.says)
		}
	}
}

func TestSpecEqual(t *testing.T) {
	base := func() Spec {
		return Spec{MemberCount: 3, EtcdVersion: MustVersion("3.6.16"), Hosts: []HostID{"a"}, Hold: true, DeadAfter: time.Second, Options: map[string]string{"x": "y"}}
	}
	if !base().Equal(base()) {
		t.Error("a spec differs from itself")
	}
	for name, change := range map[string]func(*Spec){
		"count":   func(s *Spec) { s.MemberCount = 5 },
		"version": func(s *Spec) { s.EtcdVersion = MustVersion("3.6.15") },
		"hosts":   func(s *Spec) { s.Hosts = []HostID{"b"} },
		"hold":    func(s *Spec) { s.Hold = false },
		"dead":    func(s *Spec) { s.DeadAfter = 0 },
		"outage":  func(s *Spec) { s.AcceptOutage = "3.6.16 now" },
		"backup":  func(s *Spec) { s.NoBackup = "3.6.16" },
		"options": func(s *Spec) { s.Options = map[string]string{"x": "z"} },
	} {
		s := base()
		if change(&s); s.Equal(base()) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	if s := base(); s.WithoutBackup() {
		t.Error("nobody does without a backup")
	} else if s.NoBackup = "3.6.15"; s.WithoutBackup() {
		t.Error("the word for another version counts")
	} else if s.NoBackup = "3.6.16"; !s.WithoutBackup() {
		t.Error("the word does not count")
	}
	if (Spec{}).DeadAfterOrDefault() != DefaultDeadAfter || base().DeadAfterOrDefault() != time.Second {
		t.Error("dead after")
	}
}
