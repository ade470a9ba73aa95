package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// settings is the part of a spec that the predecessor does not know, kept in
// an object beside its own. Durations are written as people write them.
type settings struct {
	Hosts []cluster.HostID `json:"hosts,omitempty"`
	Hold  bool             `json:"hold,omitempty"`
	// PauseBeforeLast keeps one voter on the release line that a change of version
	// comes from.
	PauseBeforeLast bool `json:"pauseBeforeLast,omitempty"`
	// AcceptOutage: a person allowed an outage on the way to a version.
	AcceptOutage string `json:"acceptOutage,omitempty"`
	// AcceptLoss is a version and the digest of a list of losses on the way to it.
	AcceptLoss string `json:"acceptLoss,omitempty"`
	// NoBackup is the version for which a person does without a backup.
	NoBackup  string `json:"noBackup,omitempty"`
	DeadAfter string `json:"deadAfter,omitempty"` // Go's notation, and d for days
	// AutoRecoverAfter is in the same notation.
	AutoRecoverAfter string            `json:"autoRecoverAfter,omitempty"`
	Options          map[string]string `json:"options,omitempty"`
}

// Settings amends that part, one value at a time, and leaves the rest as it is, also what a
// later release may have written. Errors: [ErrConflict] when somebody else amended it meanwhile;
// [ErrMalformed]; what the store says.
type Settings struct{ *Folder }

// Settings are those of this folder.
func (f *Folder) Settings() Settings { return Settings{f} }

// Hold sets or lifts the hold on the spec's member count.
func (f Settings) Hold(ctx context.Context, hold bool) error {
	return f.setSwitch(ctx, "hold", hold, func(s settings) bool { return s.Hold })
}

// Name has the spec name the hosts that may carry members. Nil: it names none, so that any may.
func (f Settings) Name(ctx context.Context, hosts []cluster.HostID) error {
	return f.amendSettings(ctx, "hosts", func(s settings) (any, error) {
		switch {
		case slices.Equal(s.Hosts, hosts):
			return nil, errUnchanged
		case len(hosts) == 0:
			return nil, nil
		}
		return hosts, nil
	})
}

// PauseBeforeLast sets or lifts the pause before the last voter of a change of version.
func (f Settings) PauseBeforeLast(ctx context.Context, pause bool) error {
	return f.setSwitch(ctx, "pauseBeforeLast", pause, func(s settings) bool { return s.PauseBeforeLast })
}

// AcceptOutage writes down that a person allows a version to be reached with every
// member stopped for a while. It comes before the version is written, so that no
// daemon sees the version alone. It is another word each time, and returned.
func (f Settings) AcceptOutage(ctx context.Context, to cluster.Version) (word string, err error) {
	word = cluster.Consent(to, time.Now())
	return word, f.amendSettings(ctx, "acceptOutage", func(settings) (any, error) { return word, nil })
}

// AcceptLoss writes down that a person has read what is lost on the way to a
// version, and accepts the list of that digest. It comes before the version is
// written.
func (f Settings) AcceptLoss(ctx context.Context, to cluster.Version, digest string) error {
	word := to.String() + " " + digest
	return f.amendSettings(ctx, "acceptLoss", func(s settings) (any, error) {
		if s.AcceptLoss == word {
			return nil, errUnchanged
		}
		return word, nil
	})
}

// NoBackup writes down that a person does without a backup before that version. It
// comes before the version is written.
func (f Settings) NoBackup(ctx context.Context, to cluster.Version) error {
	return f.amendSettings(ctx, "noBackup", func(s settings) (any, error) {
		if s.NoBackup == to.String() {
			return nil, errUnchanged
		}
		return to.String(), nil
	})
}

func (f Settings) setSwitch(ctx context.Context, name string, on bool, is func(settings) bool) error {
	return f.amendSettings(ctx, name, func(s settings) (any, error) {
		switch {
		case is(s) == on:
			return nil, errUnchanged
		case on:
			return true, nil
		}
		return nil, nil
	})
}

// AmendOptions changes the spec's etcd options, and gives what amend made of them. Errors:
// those of amend, too.
func (f Settings) AmendOptions(ctx context.Context, amend func(map[string]string) (map[string]string, error)) (map[string]string, error) {
	var after map[string]string
	err := f.amendSettings(ctx, "options", func(s settings) (any, error) {
		before := s.Options
		if before == nil {
			before = map[string]string{}
		}
		var err error
		switch after, err = amend(maps.Clone(before)); {
		case err != nil:
			return nil, err
		case maps.Equal(before, after):
			return nil, errUnchanged
		case len(after) == 0:
			return nil, nil
		}
		return after, nil
	})
	return after, err
}

// errUnchanged: what is wanted is there.
var errUnchanged = errors.New("unchanged")

// amendSettings writes another value under one name, nil for none, if nobody else wrote the
// settings meanwhile.
func (f Settings) amendSettings(ctx context.Context, name string, amend func(settings) (any, error)) error {
	var s settings
	rest := map[string]json.RawMessage{}
	c, err := f.read(ctx, keySettings, &f.settings)
	cond := blob.IfAbsent
	if err == nil {
		cond = blob.IfMatch(c.tag)
		_, err := parseLoose(c.data)
		if err := errors.Join(err, json.Unmarshal(c.data, &s), json.Unmarshal(c.data, &rest)); err != nil {
			return malformed(keySettings, adviceSpec, err)
		}
	} else if !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("read the settings: %w", err)
	}
	value, err := amend(s)
	if errors.Is(err, errUnchanged) {
		return confirmed(ctx, f.Folder, keySettings)
	} else if err != nil {
		return err
	}
	maps.DeleteFunc(rest, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, name) }) // as it is read
	if value != nil {
		if rest[name], err = json.Marshal(value); err != nil {
			return fmt.Errorf("write the settings: %w", err)
		}
	}
	data, err := json.MarshalIndent(rest, "", "  ")
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	if _, err := f.putOnCondition(ctx, keySettings, data, cond); err != nil {
		if errors.Is(err, blob.ErrPreconditionFailed) {
			err = fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return fmt.Errorf("write the settings: %w", err)
	}
	return nil
}
