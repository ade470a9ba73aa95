package envfile

import "strings"

// prefixFlag begins the variables by which a daemon of ours is given its flags.
const prefixFlag = "ETCDADM_"

// OfFlag is the variable that gives a flag: ETCDADM_FOO_BAR gives --foo-bar.
func OfFlag(name string) string {
	return prefixFlag + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// IsFlag tells whether a variable could be one of those.
func IsFlag(name string) bool { return strings.HasPrefix(name, prefixFlag) }
