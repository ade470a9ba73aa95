package reconcile

import (
	"fmt"
	"strings"
)

// Alpha is what the operator does only where it was started with --alpha: it is not finished, and may change.
type Alpha struct {
	// ClientIssuer: spec.tls.clients, by which an issuer signs the clients' authority.
	ClientIssuer bool
}

// ParseAlpha reads a list of names with commas between them, as --alpha has it.
func ParseAlpha(list string) (out Alpha, err error) {
	switches := map[string]*bool{"ClientIssuer": &out.ClientIssuer}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || name == "Adopt" { // which is on in each operator by now
			continue
		}
		is, known := switches[name]
		if !known {
			return Alpha{}, fmt.Errorf("--alpha=%s: this operator knows ClientIssuer", name)
		}
		*is = true
	}
	return out, nil
}
