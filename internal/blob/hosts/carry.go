package hosts

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/register"
)

// carry brings a proposer's messages to the keepers and their answers back, until it ended.
func (s *Store) carry(ctx context.Context, p *register.Proposer, out []register.Message) {
	replies := make(chan register.Reply)
	over := make(chan struct{})
	defer close(over)
	send := func(ctx context.Context, out []register.Message) {
		for _, m := range out {
			go func() {
				r := s.say(ctx, m)
				select {
				case replies <- r:
				case <-over:
				}
			}()
		}
	}
	// What is to be accepted goes on to slow keepers when the others were enough and the caller is gone.
	later := context.WithoutCancel(ctx)
	began := s.opt.Unsure() == nil // of a host that was sure, its own keeper's answer may be among those that count
	stopped := func() bool {
		if err := s.opt.Unsure(); err != nil && (began || p.Phase() != register.Asking) {
			p.CallOff(err)
		}
		return p.Phase() == register.Ended
	}
	if stopped() {
		return
	}
	send(ctx, out)
	patience := time.NewTicker(askPatience)
	defer patience.Stop()
	for asked := 1; p.Phase() != register.Ended; {
		if p.Phase() == register.Ready {
			if err := errors.Join(ctx.Err(), blob.Still(ctx)); err != nil || stopped() {
				p.CallOff(err)
				return
			}
			send(later, p.Propose())
		}
		select {
		case r := <-replies:
			if stopped() { // an answer says what its host remembers of this disk
				return
			}
			out := p.Receive(r)
			switch {
			case p.Phase() == register.Ended:
				for _, m := range out { // that it is chosen
					go func() { s.say(later, m) }()
				}
			case stopped():
			case p.Phase() == register.Proposing:
				send(later, out)
			default:
				send(ctx, out)
			}
		case <-patience.C:
			if asked++; asked <= askTimes {
				send(ctx, p.AskAgain())
			} else if out := p.Insist(); !stopped() {
				send(ctx, out)
			}
		case <-ctx.Done():
			p.CallOff(ctx.Err())
		}
	}
}

// say asks one keeper. One that does not answer in time, or answers something else, is silent.
func (s *Store) say(ctx context.Context, m register.Message) register.Reply {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	r, err := s.opt.Say(ctx, m)
	if err != nil || r.From != m.To || r.Kind != m.Kind || r.Ballot != m.Entry.Ballot || r.Part != m.Entry.Part {
		return register.Reply{From: m.To, Kind: m.Kind, Ballot: m.Entry.Ballot, Part: m.Entry.Part, Refused: register.Silent}
	}
	return r
}
