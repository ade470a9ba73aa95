package reconcile

import (
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
)

// The operator asks no issuer by its own account that who runs it has not listed.
func TestIssuersThatMayBeAsked(t *testing.T) {
	own := corp
	wide, pca := decide.Issuer{Name: "corp", Kind: "ClusterIssuer", Group: "cert-manager.io"}, decide.Issuer{Name: "pca", Kind: "Issuer", Group: "awspca.example"}
	for _, test := range []struct {
		list           string
		own, wide, pca bool
	}{
		{"", false, false, false}, {"Issuer/*", true, false, false}, {"Issuer/other", false, false, false},
		{"Issuer/*,ClusterIssuer/corp", true, true, false}, {"ClusterIssuer/*", false, true, false}, {"Issuer.awspca.example/pca", false, false, true},
		{"Issuer.cert-manager.io/corp, Issuer.awspca.example/*", true, false, true},
	} {
		issuers, err := ParseIssuers(test.list)
		if err != nil {
			t.Fatal(err)
		}
		if issuers.allow(own) != test.own || issuers.allow(wide) != test.wide || issuers.allow(pca) != test.pca {
			t.Errorf("%q: %v %v %v", test.list, issuers.allow(own), issuers.allow(wide), issuers.allow(pca))
		}
	}
	for _, list := range []string{"corp", "Issuer", "Issuer/", "/corp", "*/corp", "Issuer./corp", ".x/corp", "Issuer/a*", "Issuer/a/b", "Issuer/*,corp", "*"} {
		if _, err := ParseIssuers(list); err == nil || !strings.Contains(err.Error(), "--issuers=") {
			t.Errorf("%q: %v", list, err)
		}
	}
	s := &sight{cluster: &v1alpha1.EtcdCluster{Spec: v1alpha1.ClusterSpec{TLS: &v1alpha1.TLS{Clients: &v1alpha1.TLSClients{IssuerRef: v1alpha1.IssuerRef{Name: "corp", Kind: "ClusterIssuer"}}}}}}
	if s.want(nil); !s.world.Want.IssuerBarred {
		t.Error("an issuer is asked that nobody has listed")
	}
	if s.want(Issuers{wide}); s.world.Want.IssuerBarred {
		t.Error("what is listed is not asked")
	}
}
