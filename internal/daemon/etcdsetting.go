package daemon

import (
	"strconv"
	"strings"
)

// quotaOf is the quota of the database that a member is started with; zero: etcd's
// default.
func quotaOf(options, environ []string) int64 {
	n, _ := strconv.ParseInt(etcdSetting(options, environ, "quota-backend-bytes"), 10, 64)
	return n
}

// etcdSetting is what a member is started with, by the launch's options or else by the
// environment; empty: etcd's default.
func etcdSetting(options, environ []string, name string) string {
	for _, o := range options {
		if v, ok := strings.CutPrefix(strings.TrimLeft(o, "-"), name+"="); ok {
			return v
		}
	}
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, "ETCD_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="); ok {
			return v
		}
	}
	return ""
}
