package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// settingsDiffer tells of choices that ought to be the same on every host and are not.
// A host that does not say one is of a release without it, and differs from nobody.
func (v *view) settingsDiffer() {
	type said struct {
		value string
		hosts []string
	}
	var flags []string // sorted, as each host's are
	by := map[string][]said{}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		for _, s := range h.Settings {
			all := by[s.Flag]
			if all == nil {
				flags = append(flags, s.Flag)
			}
			at := slices.IndexFunc(all, func(x said) bool { return x.value == s.Value })
			if at < 0 {
				at, all = len(all), append(all, said{value: s.Value})
			}
			all[at].hosts = append(all[at].hosts, string(h.Host))
			by[s.Flag] = all
		}
	}
	slices.Sort(flags)
	for _, flag := range flags {
		all := by[flag]
		if len(all) < 2 {
			continue
		}
		var words []string
		for _, x := range all {
			value := x.value
			if value == "" {
				value = "not set"
			}
			words = append(words, fmt.Sprintf("%s on %s", value, strings.Join(x.hosts, ", ")))
		}
		v.advise("settings-differ", "start the daemons with the same "+flag+", one host at a time", "",
			"%s differs between hosts (%s); the daemon that leads, or takes the backup, uses its own value", flag, strings.Join(words, "; "))
	}
}

// protectedFor is how long after the last encrypted backup plain ones are told of: who
// has given encryption up on purpose need not hear of it for ever.
const protectedFor = 7 * 24 * time.Hour

// unprotected tells of a newest backup that anybody who has the store can read, where
// one before it was encrypted.
func (v *view) unprotected() {
	newest, encrypted := v.obs.Backups.Newest, v.obs.Backups.Encrypted
	if len(newest) == 0 || newest[0].Encrypted || encrypted == nil || v.obs.At.Sub(encrypted.At) > protectedFor {
		return
	}
	v.advise("backup-unprotected", "start every daemon with the same --backup-recipient", "etcdadm backup create",
		"backup %s is not encrypted, and %s before it was: whoever can read the store can read every key in it", newest[0].Name, encrypted.Name)
}
