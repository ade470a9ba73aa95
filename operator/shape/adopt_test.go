package shape

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// Members of a cluster that is being adopted reach the peers' port, and nobody else's word opens it, nor any other port.
func TestPolicyWhileAdopting(t *testing.T) {
	c := small()
	for _, adopting := range []bool{false, true} {
		c.Adopting = adopting
		var open []int
		for _, o := range c.Shared() {
			p, is := o.(*networkingv1.NetworkPolicy)
			if !is {
				continue
			}
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					if len(rule.From) == 0 {
						open = append(open, port.Port.IntValue())
					}
				}
			}
		}
		if want := []int{PortClient, PortHealth, PortPeer}; !adopting && !slices.Equal(open, want[:2]) || adopting && !slices.Equal(open, want) {
			t.Errorf("adopting: %t, open are %v", adopting, open)
		}
	}
}

// A volume that is made for a host that is to join says so, and no other one.
func TestClaimWhileAdopting(t *testing.T) {
	c := small()
	c.Adopts = "old-ca ab"
	for _, adopting := range []bool{false, true} {
		c.Adopting = adopting
		if said, is := c.Claim(1).Annotations[AnnotationAdopt]; is != adopting || is && said != "old-ca ab" {
			t.Errorf("adopting: %t, it says %q", adopting, said)
		}
	}
}
