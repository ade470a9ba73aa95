package step

import (
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

func UpgradeCommand(v *View) string { return "etcdadm upgrade " + v.Spec.EtcdVersion.String() }

// VersionWaits says why the version is not changed, and lets everything else go on.
func VersionWaits(v *View, template string, facts ...any) *decision.Decision {
	return VersionWaitsFor(v, "", template, facts...)
}

func VersionWaitsFor(v *View, command, template string, facts ...any) *decision.Decision {
	v.Notice("version", command, "the members run etcd {release} and the spec asks for {etcdVersion}: {why}", v.RunningWords(), v.Spec.EtcdVersion, words.F(template, facts...))
	return nil
}

// VersionSoon waits for something that comes by itself within seconds.
func VersionSoon(v *View, template string, facts ...any) *decision.Decision {
	return decision.WaitLater("version", "", "the members run etcd {release} and the spec asks for {etcdVersion}: {why}", v.RunningWords(), v.Spec.EtcdVersion, words.F(template, facts...))
}
