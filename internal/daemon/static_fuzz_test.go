package daemon

import "testing"

// FuzzStatic: a static configuration that is taken makes a spec that holds.
func FuzzStatic(f *testing.F) {
	f.Add(`{"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["192.0.2.1"]}]}`, "192.0.2.1")
	f.Add(`{"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["::1"]},{"id":"b","ip":["b"]},{"id":"c","ip":[""]}]}`, "::1")
	f.Add(`{"nodes":null} {}`, "")
	f.Fuzz(func(t *testing.T, text, address string) {
		s, err := ParseStatic(text)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		spec, err := s.Spec()
		if err == nil {
			err = spec.Validate()
		}
		if err != nil || spec.MemberCount != len(s.Nodes) {
			t.Fatalf("%s was taken, and makes %+v: %v", text, spec, err)
		}
		_, _ = s.Seeds(4000)
	})
}
