package control

import (
	"bytes"
	"cmp"
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
	"etcdadm.io/internal/duration"
)

const adviceSpec = "write a new one with `etcdadm seed STORE --version VERSION --nodes N`, or with `etcd-manager-ctl --backup-store=STORE --member-count=N --etcd-version=VERSION configure-cluster`"

// SpecRead is the spec as the store holds it.
type SpecRead struct {
	// Spec is nil when there is none, and when it is refused.
	Spec *cluster.Spec
	// Standing is what is left of a spec that is refused; nil: there is none, it is not
	// refused, or the settings beside it cannot be read.
	Standing *cluster.Standing
	// Warnings are sentences about what was tolerated.
	Warnings []string
	tag      blob.ETag // of the spec; empty: there is none
}

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

// ReadSpec reads the spec and our settings beside it. No spec is no error.
//
// Errors: ErrMalformed; cluster.ErrSpec when it asks for what cannot be right;
// what the store says. Unknown keys are tolerated with a warning. With the first two
// it gives what is left of the spec, where the settings could be read.
func (f *Folder) ReadSpec(ctx context.Context) (SpecRead, error) {
	c, err := f.read(ctx, keySpec, &f.spec)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return SpecRead{}, nil
	case err != nil:
		return SpecRead{}, fmt.Errorf("read the spec: %w", err)
	}
	out, refused := parseSpec(c.data)
	if refused != nil {
		out = SpecRead{Spec: &cluster.Spec{}}
	}
	out.tag = c.tag
	more, err := f.read(ctx, keySettings, &f.settings)
	switch {
	case errors.Is(err, blob.ErrNotFound):
	case err != nil:
		return SpecRead{}, fmt.Errorf("read the settings: %w", err)
	default:
		warnings, err := applySettings(out.Spec, more.data)
		if err != nil {
			return SpecRead{tag: c.tag}, cmp.Or(refused, err)
		}
		out.Warnings = append(out.Warnings, warnings...)
	}
	if err := out.Spec.Validate(); refused == nil && err != nil {
		refused = &blob.Error{Op: "read", Object: keySpec, Err: err, Advice: adviceSpec}
	}
	if refused != nil {
		return SpecRead{Standing: out.Spec.Standing(), tag: c.tag}, refused
	}
	return out, nil
}

func parseSpec(data []byte) (SpecRead, error) {
	l, err := parseLoose(data)
	if err != nil {
		return SpecRead{}, malformed(keySpec, adviceSpec, err)
	}
	spec, err := specOf(l)
	if err != nil {
		return SpecRead{}, malformed(keySpec, adviceSpec, err)
	}
	return SpecRead{Spec: &spec, Warnings: unknownKeys(keySpec, l)}, nil
}

// specOf reads the two keys that the predecessor knows. What is missing is
// left zero, which Validate has a sentence for.
func specOf(l *loose) (cluster.Spec, error) {
	n, err := l.integer("memberCount")
	if err != nil {
		return cluster.Spec{}, err
	}
	if n != int64(int32(n)) {
		return cluster.Spec{}, fmt.Errorf("memberCount is %d", n)
	}
	s, err := l.text("etcdVersion")
	if err != nil || s == "" {
		return cluster.Spec{MemberCount: int(n)}, err
	}
	v, err := cluster.ParseVersion(s)
	return cluster.Spec{MemberCount: int(n), EtcdVersion: v}, err
}

func unknownKeys(key string, l *loose) []string {
	var out []string
	for _, name := range l.rest() {
		out = append(out, fmt.Sprintf("%s has the key %q, which means nothing and is ignored", key, name))
	}
	return out
}

func applySettings(spec *cluster.Spec, data []byte) (warnings []string, err error) {
	l, err := parseLoose(data)
	if err != nil {
		return nil, malformed(keySettings, adviceSpec, err)
	}
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, malformed(keySettings, adviceSpec, err)
	}
	spec.Hosts, spec.Hold, spec.PauseBeforeLast, spec.AcceptOutage, spec.AcceptLoss, spec.NoBackup, spec.Options = s.Hosts, s.Hold, s.PauseBeforeLast, s.AcceptOutage, s.AcceptLoss, s.NoBackup, s.Options
	if s.DeadAfter != "" {
		if spec.DeadAfter, err = duration.Parse(s.DeadAfter); err != nil {
			return nil, malformed(keySettings, adviceSpec, fmt.Errorf("deadAfter: %w", err))
		}
	}
	if s.AutoRecoverAfter != "" {
		if spec.AutoRecoverAfter, err = duration.Parse(s.AutoRecoverAfter); err != nil {
			return nil, malformed(keySettings, adviceSpec, fmt.Errorf("autoRecoverAfter: %w", err))
		}
	}
	for _, name := range []string{"hosts", "hold", "pauseBeforeLast", "acceptOutage", "acceptLoss", "noBackup", "deadAfter", "autoRecoverAfter", "options"} {
		l.raw(name)
	}
	return unknownKeys(keySettings, l), nil
}

// WriteSpec writes the whole spec: the two keys that the predecessor reads,
// and our settings beside them when there are any or were any before. The
// settings are written first, so that a reader in between sees the old count
// with the new settings and never the new count without them.
func (f *Folder) WriteSpec(ctx context.Context, spec cluster.Spec) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	s := settings{Hosts: spec.Hosts, Hold: spec.Hold, PauseBeforeLast: spec.PauseBeforeLast, AcceptOutage: spec.AcceptOutage, AcceptLoss: spec.AcceptLoss, NoBackup: spec.NoBackup, Options: spec.Options}
	if spec.AutoRecoverAfter > 0 {
		s.AutoRecoverAfter = spec.AutoRecoverAfter.String()
	}
	if spec.DeadAfter > 0 {
		s.DeadAfter = spec.DeadAfter.String()
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	_, err = f.read(ctx, keySettings, &f.settings)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("write the settings: look first: %w", err)
	}
	plain := spec.Equal(cluster.Spec{MemberCount: spec.MemberCount, EtcdVersion: spec.EtcdVersion})
	if !plain || err == nil {
		if _, err := blob.PutBytes(ctx, f.store, keySettings, data, blob.Any); err != nil {
			return fmt.Errorf("write the settings: %w", err)
		}
	}
	return f.putSpec(ctx, spec)
}

// ConfigureCluster writes the member count and the version of a cluster that is new,
// whatever is there, and leaves our settings alone; [Folder.AmendSpec] is for one that may
// run. The spec is refused in words if it cannot be right.
func (f *Folder) ConfigureCluster(ctx context.Context, memberCount int, version cluster.Version) error {
	spec := cluster.Spec{MemberCount: memberCount, EtcdVersion: version}
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	return f.putSpec(ctx, spec)
}

func (f *Folder) putSpec(ctx context.Context, spec cluster.Spec) error {
	if _, err := blob.PutBytes(ctx, f.store, keySpec, formatSpec(spec), blob.Any); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	return nil
}

// formatSpec writes exactly the two keys that the predecessor accepts.
func formatSpec(spec cluster.Spec) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"memberCount\": %d,\n  \"etcdVersion\": %q\n}\n", spec.MemberCount, spec.EtcdVersion)
	return b.Bytes()
}

// Hold sets or lifts the hold on the spec's member count, and leaves the rest
// of the settings as they are, also what a later release may have written.
func (f *Folder) Hold(ctx context.Context, hold bool) error {
	return f.setSwitch(ctx, "hold", hold, func(s settings) bool { return s.Hold })
}

// Name has the spec name the hosts that may carry members, and leaves the rest of the settings
// as they are. Nil: it names none, so that any may.
func (f *Folder) Name(ctx context.Context, hosts []cluster.HostID) error {
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

// PauseBeforeLast sets or lifts the pause before the last voter of a change of
// version, and leaves the rest of the settings as they are.
func (f *Folder) PauseBeforeLast(ctx context.Context, pause bool) error {
	return f.setSwitch(ctx, "pauseBeforeLast", pause, func(s settings) bool { return s.PauseBeforeLast })
}

// AcceptOutage writes down that a person allows a version to be reached with every
// member stopped for a while. It comes before the version is written, so that no
// daemon sees the version alone. It is another word each time, and returned.
func (f *Folder) AcceptOutage(ctx context.Context, to cluster.Version) (word string, err error) {
	word = cluster.Consent(to, time.Now())
	return word, f.amendSettings(ctx, "acceptOutage", func(settings) (any, error) { return word, nil })
}

// AcceptLoss writes down that a person has read what is lost on the way to a
// version, and accepts the list of that digest. It comes before the version is
// written.
func (f *Folder) AcceptLoss(ctx context.Context, to cluster.Version, digest string) error {
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
func (f *Folder) NoBackup(ctx context.Context, to cluster.Version) error {
	return f.amendSettings(ctx, "noBackup", func(s settings) (any, error) {
		if s.NoBackup == to.String() {
			return nil, errUnchanged
		}
		return to.String(), nil
	})
}

func (f *Folder) setSwitch(ctx context.Context, name string, on bool, is func(settings) bool) error {
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

// AmendOptions changes the spec's etcd options, and leaves the rest of the
// settings as they are, also what a later release may have written. It gives what
// amend made of them. Errors: those of amend; ErrConflict when somebody else
// changed them meanwhile; ErrMalformed; what the store says.
func (f *Folder) AmendOptions(ctx context.Context, amend func(map[string]string) (map[string]string, error)) (map[string]string, error) {
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

// amendSettings writes the settings with another value under one name, nil for
// none, if nobody else wrote them meanwhile.
func (f *Folder) amendSettings(ctx context.Context, name string, amend func(settings) (any, error)) error {
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
		return confirmed(ctx, f, keySettings)
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
