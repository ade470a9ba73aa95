package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"etcdadm.io/internal/console"
)

// report asks a daemon what it knows.
func (h *daemonHost) report(ctx context.Context) (console.Report, error) {
	var r console.Report
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.on(portMetrics)+"/status", nil)
	if err != nil {
		return r, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return r, fmt.Errorf("ask the daemon of %s: %w", h.id, err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&r); err != nil {
		return r, fmt.Errorf("ask the daemon of %s: %w", h.id, err)
	}
	return r, nil
}

// leader finds the daemon that leads.
func (f *fleet) leader(ctx context.Context) (*daemonHost, error) {
	var found *daemonHost
	_, err := poll(ctx, func(ctx context.Context) error {
		var last error
		for _, h := range f.hosts {
			r, err := h.report(ctx)
			if err != nil {
				last = err
				continue
			}
			if r.Leading {
				found = h
				return nil
			}
		}
		return errors.Join(errors.New("no daemon leads"), last)
	})
	return found, err
}

// decisions are what the leading daemon decided since a time, for a timeline.
// They are an explanation only, so one that cannot be had is left out.
func (f *fleet) decisions(ctx context.Context, since time.Time) []event {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leader, err := f.leader(ctx)
	if err != nil {
		return nil
	}
	r, err := leader.report(ctx)
	if err != nil {
		return nil
	}
	var out []event
	for _, s := range r.Recent {
		if s.At.Before(since) {
			continue
		}
		what := "decision " + s.Decision.Rule + ": " + s.Decision.Reason.String()
		if s.Decision.Action != nil {
			what += " → " + s.Decision.Action.String()
		}
		out = append(out, at(since, s.At, what))
	}
	return out
}
