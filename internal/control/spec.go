package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
