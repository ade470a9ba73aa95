package daemon

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ShownURL is a store's URL as people may see it, in logs and commands: what
// looks like a credential is left out.
func ShownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" && (u.Host != "" || u.RawQuery != "" || strings.Contains(u.Path, ":/")) { // neither a URL nor a plain path
		return ""
	}
	if u.Opaque != "" || u.Scheme != "" && u.Scheme != "file" && u.Host == "" && (u.Path == "" || strings.Contains(u.Path, "@")) {
		return u.Scheme + ":…" // a slash too few, or a colon too many, and what is before the @ is no user any more
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	query := u.Query()
	for name := range query {
		if secretParameter.MatchString(name) {
			delete(query, name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// SecretIn tells whether a store's URL has what looks like a credential.
func SecretIn(raw string) bool {
	u, err := url.Parse(raw)
	return err != nil || u.User != nil || slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), secretParameter.MatchString)
}

var secretParameter = regexp.MustCompile(`(?i)key|secret|token|pass|sig|cred|auth`)
