package daemon

import (
	"slices"
	"strings"

	"etcdadm.io/internal/pki"
)

// trustedBy are the certificates in the files of authorities that etcd is started with, by their SHA-256; nil: not
// known, or it has none.
func trustedBy(args []string) (out []string) {
	for _, arg := range args {
		flag, file, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if flag != "trusted-ca-file" && flag != "peer-trusted-ca-file" {
			continue
		}
		all, err := pki.ReadCertificates(file)
		if err != nil {
			return nil // etcd will say so
		}
		for _, c := range all {
			out = append(out, pki.Fingerprint(c))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
