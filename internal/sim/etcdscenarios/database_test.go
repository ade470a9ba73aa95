package etcdscenarios

import (
	"context"
	"time"
)

// compact has the members forget what was before the newest revision.
func compact(c *command) string {
	return c.try(func(ctx context.Context) error {
		s, err := c.w.member(c.via()).Status(ctx)
		if err != nil {
			return err
		}
		return c.w.member(c.via()).Compact(ctx, s.Revision)
	})
}

func defragment(c *command) string {
	return c.try(func(ctx context.Context) error { return c.w.member(c.word(0)).Defragment(ctx, 10*time.Second) })
}

// disarm takes an alarm of a host's member back: disarm NOSPACE h1.
func disarm(c *command) string {
	return c.try(func(ctx context.Context) error { return c.w.member(c.via()).Disarm(ctx, c.word(0), c.id(c.word(1))) })
}

// hash compares the keys of members, at the revision of the first: hash h1 h2.
func hash(c *command) string {
	answer := ""
	c.until(func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, callTime)
		defer cancel()
		s, err := c.w.member(c.word(0)).Status(ctx)
		if err != nil {
			answer = class(err)
			return false
		}
		first, err := c.w.member(c.word(0)).HashKV(ctx, s.Revision)
		for i := 1; err == nil && c.word(i) != ""; i++ {
			k, e := c.w.member(c.word(i)).HashKV(ctx, s.Revision)
			if err = e; err == nil && (k.Hash != first.Hash || k.Compacted != first.Compacted || k.Revision != s.Revision) {
				answer = "they differ"
				return false
			}
		}
		answer = "they are equal"
		if err != nil {
			answer = class(err)
		}
		return err == nil
	})
	return answer
}
