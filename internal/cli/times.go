package cli

import (
	"strings"
	"time"

	"etcdadm.io/internal/duration"
)

// someTime refuses a time to wait in which nothing could come: the leading daemon would
// go on with what nobody waits for.
func someTime(flag string, d time.Duration) error {
	if d <= 0 {
		return usage("such as "+flag+"=2m", "%s=%s is no time to wait", flag, d)
	}
	return nil
}

// dayDuration is a flag's duration with days and years.
type dayDuration struct{ to *time.Duration }

func (d dayDuration) String() string {
	if d.to == nil {
		return ""
	}
	return duration.Format(*d.to)
}

func (d dayDuration) Set(s string) (err error) {
	*d.to, err = duration.Parse(s)
	return err
}

func (dayDuration) Type() string { return "duration" }

func durationInto(d *time.Duration) func(string) error {
	return func(s string) (err error) {
		*d, err = duration.Parse(s)
		return err
	}
}

// leftWords is what is left of a pause, to the minute where it is some minutes.
func leftWords(d time.Duration) string {
	if d < 2*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// untilWords is a time of today by its hour, and another one with its date.
func untilWords(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}
