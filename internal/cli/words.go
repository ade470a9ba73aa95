package cli

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"github.com/spf13/cobra"
)

// group is a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}

// counted is a number of things whose plural is regular.
func counted[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sizeWords is a number of bytes as every table has it, with two digits at least.
func sizeWords(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		switch {
		case n >= 10*u.size:
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		case n >= u.size:
			return fmt.Sprintf("%.1f %s", float64(n/(u.size/10))/10, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// tookWords is a duration as people read it.
func tookWords(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func join(ids []cluster.HostID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, ", ")
}

func keysWords(n int64) string {
	if n < 0 {
		return "more keys than can be counted"
	}
	return counted(n, "key")
}
