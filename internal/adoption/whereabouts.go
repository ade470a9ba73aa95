package adoption

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// AskMember asks a member for its status at the client URLs that it advertises, and then
// at those that a person named: a member may advertise localhost, as etcd does by default,
// where each machine reaches its own. It returns the URL at which this very member answered.
func AskMember(m cluster.Member, named []string, ask func(endpoint string) (cluster.MemberStatus, error)) (cluster.MemberStatus, string, error) {
	if len(m.ClientURLs) == 0 && len(named) == 0 {
		return cluster.MemberStatus{}, "", errors.New("it advertises no client URL")
	}
	var failed []error
	var asked []string
	for _, u := range slices.Concat(m.ClientURLs, named) {
		if slices.Contains(asked, u) {
			continue
		}
		asked = append(asked, u)
		st, err := ask(u)
		own := slices.Contains(m.ClientURLs, u)
		switch {
		case err == nil && (st.Member == m.ID || own && st.Auth):
			return st, u, nil
		case err == nil && own:
			err = fmt.Errorf("member %s answers at %s", st.Member, u)
		}
		if own { // that another URL is another member's is no news
			failed = append(failed, err)
		}
	}
	err := errors.Join(failed...)
	if slices.ContainsFunc(m.ClientURLs, loopback) {
		err = fmt.Errorf("it advertises %s, where each machine reaches its own etcd; name a URL of this member as other machines reach it, too (--endpoints, of etcdadm init --etcd-endpoints), or restart it with such an --advertise-client-urls: %w",
			strings.Join(m.ClientURLs, ", "), err)
	}
	return cluster.MemberStatus{}, "", err
}

// loopback reports whether a URL is of the asker's own machine, not of the member that advertises it.
func loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
