package reconcile

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
)

func TestParseAlpha(t *testing.T) {
	for names, want := range map[string]Alpha{"": {}, "Adopt": {Adopt: true}, "Adopt,": {Adopt: true}} {
		if got, err := ParseAlpha(names); err != nil || got != want {
			t.Errorf("%q: %+v, %v", names, got, err)
		}
	}
	for _, names := range []string{"adopt", "Adopt,Fly", "all"} {
		if got, err := ParseAlpha(names); err == nil || got != (Alpha{}) || !strings.Contains(err.Error(), "there is Adopt") {
			t.Errorf("%q: %+v, %v", names, got, err)
		}
	}
}

// What is not finished is not acted on without the operator's flag, which the EtcdCluster shows.
func TestAlphaIsOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		ec := &v1alpha1.EtcdCluster{}
		ec.Spec.Bootstrap = &v1alpha1.Bootstrap{Adopt: &v1alpha1.Adopt{}}
		s := &sight{cluster: ec, alpha: Alpha{Adopt: on}}
		s.want()
		says := slices.ContainsFunc(s.world.Want.Unsupported, func(what string) bool { return strings.Contains(what, "bootstrap.adopt (alpha: --alpha=Adopt") })
		if says == on || (s.world.Want.Adopt != nil) != on {
			t.Errorf("on: %t, not supported is %v, adopt %v", on, s.world.Want.Unsupported, s.world.Want.Adopt)
		}
	}
}
