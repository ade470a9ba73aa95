package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
)

// Issuers are those that the operator may ask to sign: whoever may make an EtcdCluster gets an authority of them with its key, by
// the operator's account rather than by his own. Each is a kind, in full, and a name, which * is for all of that kind.
type Issuers []decide.Issuer

// ParseIssuers reads a list of KIND/NAME or KIND.GROUP/NAME with commas between them, as --issuers has it. Empty: none.
func ParseIssuers(list string) (Issuers, error) {
	out := Issuers{}
	for _, word := range strings.Split(list, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		kind, name, _ := strings.Cut(word, "/")
		kind, group, other := strings.Cut(kind, ".")
		if !other {
			group = shape.IssuerGroup
		}
		if kind == "" || group == "" || name == "" || strings.ContainsAny(kind+group, "*/") || name != "*" && strings.ContainsAny(name, "*/") {
			return nil, fmt.Errorf("--issuers=%s: write KIND/NAME or KIND.GROUP/NAME, such as ClusterIssuer/corp, or KIND/* for all of a kind", word)
		}
		out = append(out, decide.Issuer{Kind: kind, Group: group, Name: name})
	}
	return out, nil
}

// allow says whether an issuer may be asked.
func (i Issuers) allow(is decide.Issuer) bool {
	return slices.ContainsFunc(i, func(one decide.Issuer) bool {
		return one.Kind == is.Kind && one.Group == is.Group && (one.Name == "*" || one.Name == is.Name)
	})
}
