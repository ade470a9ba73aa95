package duration

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "7d": 7 * Day, "730d": 730 * Day,
		"2y": 2 * Year, "1y2d3h4m5s": Year + 2*Day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"1.5d": 36 * time.Hour, " 7d ": 7 * Day, "250ms": 250 * time.Millisecond, "3µs": 3 * time.Microsecond,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": ErrSyntax, "7": ErrSyntax, "d": ErrSyntax, "-7d": ErrSyntax, "+7d": ErrSyntax, "7 d": ErrSyntax, "7w": ErrSyntax,
		"1..5d": ErrSyntax, "1d-1h": ErrSyntax, "7dd": ErrSyntax, "99999999999999999999w": ErrSyntax,
		"293y": ErrRange, "292y365d": ErrRange, "99999999999999999999h": ErrRange,
	} {
		if got, err := Parse(text); !errors.Is(err, want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestFormatRoundTrip(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", Day: "1d", Day - time.Second: "23h59m59s", 730 * Day: "730d", 36 * time.Hour: "1d12h", 90 * time.Minute: "1h30m", time.Hour: "1h", 10 * time.Minute: "10m", 20 * time.Second: "20s",
	} {
		if got := Format(d); got != want {
			t.Errorf("Format(%d) = %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		if got, err := Parse(Format(d)); err != nil || got != d {
			t.Fatalf("Parse(Format(%d)) = %d, %v", d, got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "7d", "1y2d", "1.5h", "-1s", "9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := Parse(text); err == nil && d < 0 {
			t.Fatalf("Parse(%q) is negative: %v", text, d)
		}
	})
}
