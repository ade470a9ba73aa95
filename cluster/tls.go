package cluster

import (
	"slices"
	"strings"
)

// TurnsTLSOn reports whether secure is what plain would be with TLS: the same
// addresses, where some were http and all are https now. A member whose peer URLs
// change like that does not move; but those that find it at the new URLs have to
// have certificates first, so that it takes a leader's word (docs/adr/019-tls.md).
func TurnsTLSOn(plain, secure []string) bool {
	if len(plain) != len(secure) || slices.Equal(plain, secure) || slices.Equal(sortedURLs(plain), sortedURLs(secure)) {
		return false
	}
	with := make([]string, 0, len(plain))
	for _, u := range plain {
		with = append(with, "https://"+addressOf(u))
	}
	return slices.Equal(sortedURLs(with), sortedURLs(secure))
}

// WithoutTLS are the same addresses without TLS.
func WithoutTLS(urls []string) []string {
	plain := make([]string, 0, len(urls))
	for _, u := range urls {
		plain = append(plain, "http://"+addressOf(u))
	}
	return plain
}

// SameAddresses reports whether two lists of URLs name the same addresses, with TLS or without: one port has one listener.
func SameAddresses(a, b []string) bool {
	return slices.Equal(sortedURLs(WithoutTLS(a)), sortedURLs(WithoutTLS(b)))
}

func addressOf(u string) string {
	return strings.TrimPrefix(strings.TrimPrefix(u, "http://"), "https://")
}

func sortedURLs(urls []string) []string {
	if slices.IsSorted(urls) { // nearly always
		return urls
	}
	s := slices.Clone(urls)
	slices.Sort(s)
	return s
}
