package reconcile

import (
	"fmt"
	"strings"
)

// Alpha are the features that are not finished, which an operator has by --alpha alone.
type Alpha struct {
	// Adopt: spec.bootstrap.adopt is acted on (docs/adr/046-adopting-a-running-cluster.md).
	Adopt bool
}

// ParseAlpha reads their names, by commas; an empty text: none. A name that is not known is an error.
func ParseAlpha(names string) (Alpha, error) {
	var a Alpha
	known := []struct {
		name string
		on   *bool
	}{
		{"Adopt", &a.Adopt},
	}
	var all []string
	for _, k := range known {
		all = append(all, k.name)
	}
next:
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		for _, k := range known {
			if k.name == name {
				*k.on = true
				continue next
			}
		}
		return Alpha{}, fmt.Errorf("--alpha: no feature is called %q: there is %s", name, strings.Join(all, ", "))
	}
	return a, nil
}
