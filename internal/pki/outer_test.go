package pki

import (
	"errors"
	"testing"
	"time"
)

// An authority of which somebody who signed it ends first: nothing that it issues lasts longer, and then it is over.
func TestUntil(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	all, err := Create(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	request, err := ClientRequest("root", Lifetime{Duration: 48 * time.Hour, MinTimeLeft: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	end := now.Add(24 * time.Hour)
	for name, test := range map[string]struct {
		of   *Authority
		want time.Time
	}{
		"its own end":       {all.Clients, now.Add(48 * time.Hour)},
		"an earlier one":    {all.Clients.Until(end), end},
		"one that is later": {all.Clients.Until(now.Add(2 * AuthorityLifetime)), now.Add(48 * time.Hour)},
	} {
		pair, err := test.of.Issue(request, now)
		if err != nil || !pair.Leaf().NotAfter.Equal(test.want) {
			t.Errorf("%s: until %s: %v", name, pair, err)
		}
	}
	if is := all.Clients.Until(now.Add(2 * AuthorityLifetime)).Ends(); !is.Equal(all.Clients.Signing().NotAfter) {
		t.Errorf("it ends at %s", is)
	}
	if _, err := all.Clients.Until(end).Issue(request, end.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("it issues after its end: %v", err)
	}
	if err := all.Clients.Check(end.Add(time.Second)); err != nil {
		t.Errorf("the one that was not limited has ended: %v", err)
	}
}
