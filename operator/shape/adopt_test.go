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
