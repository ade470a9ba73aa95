package etcdscenarios

import (
	"context"
	"fmt"
	"strings"
)

func put(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.kv(c.via()).put(ctx, c.word(0), c.word(1), c.number("lease", 0))
	})
}

// get reads a key. With want=VALUE it waits for it.
func get(c *command) string {
	answer := ""
	c.until(func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, c.duration("timeout", callTime))
		defer cancel()
		v, err := c.w.kv(c.via()).get(ctx, c.word(0), c.has("local"))
		switch {
		case err != nil:
			answer = class(err)
		case v == "":
			answer = "absent"
		default:
			answer = v
		}
		return answer == c.value("want", answer)
	})
	return answer
}

// fill writes values of 64 KiB until a write is refused. etcd measures its
// database when a batch is committed, every 100 ms, so it takes some more than
// the quota.
func fill(c *command) string {
	for i := range 2000 {
		ctx, cancel := context.WithTimeout(c.ctx, callTime)
		err := c.w.kv(c.via()).put(ctx, fmt.Sprintf("fill-%d", i%100), strings.Repeat("x", 64<<10), 0)
		cancel()
		if err != nil {
			return class(err)
		}
	}
	return "never refused"
}

func grant(c *command) string {
	var ttl int64
	answer := c.try(func(ctx context.Context) (err error) {
		ttl, err = c.w.kv(c.via()).grant(ctx, c.number("id", 0), c.number("ttl", 5))
		return err
	})
	if answer != "ok" {
		return answer
	}
	return fmt.Sprintf("%d s", ttl)
}

func keepAlive(c *command) string {
	var ttl int64
	answer := c.try(func(ctx context.Context) (err error) {
		ttl, err = c.w.kv(c.via()).keepAlive(ctx, c.number("id", 0))
		return err
	})
	if answer != "ok" {
		return answer
	}
	return fmt.Sprintf("%d s", ttl)
}

func revoke(c *command) string {
	return c.try(func(ctx context.Context) error { return c.w.kv(c.via()).revoke(ctx, c.number("id", 0)) })
}

// setAlarm raises or disarms an alarm: alarm NOSPACE of=h1 [off].
func setAlarm(c *command) string {
	return c.try(func(ctx context.Context) error {
		return c.w.kv(c.via()).alarm(ctx, c.word(0), c.id(c.value("of", "h1")), !c.has("off"))
	})
}
