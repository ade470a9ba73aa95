package step

import (
	"fmt"

	"etcdadm.io/plan/internal/decision"
)

func UpgradeCommand(v *View) string { return "etcdadm upgrade " + v.Spec.EtcdVersion.String() }

// VersionWaits says why the version is not changed, and lets everything else go on.
func VersionWaits(v *View, format string, args ...any) *decision.Decision {
	return VersionWaitsFor(v, "", format, args...)
}

func VersionWaitsFor(v *View, command, format string, args ...any) *decision.Decision {
	v.Aside("version", command, "the members run etcd %s and the spec asks for %s: %s", v.RunningWords(), v.Spec.EtcdVersion, fmt.Sprintf(format, args...))
	return nil
}

// VersionSoon waits for something that comes by itself within seconds.
func VersionSoon(v *View, format string, args ...any) *decision.Decision {
	return decision.WaitLater("version", "", "the members run etcd %s and the spec asks for %s: %s", v.RunningWords(), v.Spec.EtcdVersion, fmt.Sprintf(format, args...))
}
