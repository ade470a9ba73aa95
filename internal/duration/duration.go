// Package duration reads the durations that people write in flags and environment variables:
// Go's own syntax plus "d" for 24 hours and "y" for 365 days, as etcd-manager's settings use
// them ("730d", "1y6h"). A day here is a length of time, never a calendar day.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Lengths of the two units that package time does not have.
const (
	Day  = 24 * time.Hour
	Year = 365 * Day
)

// Errors that Parse wraps.
var (
	ErrSyntax = errors.New(`want a number with a unit, such as 90m, 24h, 7d or 2y`)
	ErrRange  = errors.New("longer than 292 years")
)

// Parse reads a duration such as "1h30m", "7d" or "1y12h". A sign is refused, since every
// setting that uses it is a length; a bare "0" is allowed. The error wraps ErrSyntax or ErrRange.
func Parse(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	if rest == "0" {
		return 0, nil
	}
	if rest == "" {
		return 0, fmt.Errorf("parse duration %q: %w", text, ErrSyntax)
	}
	var total time.Duration
	for rest != "" {
		number := rest[:spanOf(rest, isNumeric)]
		rest = rest[len(number):]
		unit := rest[:spanOf(rest, func(c byte) bool { return !isNumeric(c) })]
		rest = rest[len(unit):]
		part, err := term(number, unit)
		if err != nil {
			return 0, fmt.Errorf("parse duration %q: %w", text, err)
		}
		if part > math.MaxInt64-total {
			return 0, fmt.Errorf("parse duration %q: %w", text, ErrRange)
		}
		total += part
	}
	return total, nil
}

// term is one number with its unit.
func term(number, unit string) (time.Duration, error) {
	scale := time.Duration(1)
	switch unit {
	case "d":
		unit, scale = "h", Day/time.Hour
	case "y":
		unit, scale = "h", Year/time.Hour
	}
	if number == "" || unit == "" || strings.ContainsAny(unit, "+- ") {
		return 0, ErrSyntax
	}
	d, err := time.ParseDuration(number + unit)
	switch {
	case err != nil && strings.Trim(number, "0123456789") == "" && knownUnit(unit):
		return 0, ErrRange // well formed, so it can only have been too large
	case err != nil:
		return 0, ErrSyntax
	case d > math.MaxInt64/scale:
		return 0, ErrRange
	}
	return d * scale, nil
}

func knownUnit(unit string) bool {
	_, err := time.ParseDuration("1" + unit)
	return err == nil
}

func spanOf(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func isNumeric(c byte) bool { return c == '.' || '0' <= c && c <= '9' }

// Format writes d with days where Parse would read them back: "730d", "1d12h", "90m".
// Parse(Format(d)) is d for every d that is not negative.
func Format(d time.Duration) string {
	if d < Day {
		return trimZeros(d)
	}
	days := fmt.Sprintf("%dd", d/Day)
	if d%Day == 0 {
		return days
	}
	return days + trimZeros(d%Day)
}

// trimZeros drops the "0m0s" that time.Duration writes after whole hours and minutes.
func trimZeros(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
