package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/duration"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
)

// face is what words for a person in Kubernetes are made of.
type face struct {
	*v1alpha1.EtcdCluster
	facts map[string]any // of the blocker
}

// inKubernetes are the daemons' blockers whose way out, on bare hosts, is a flag or a command of a host: what is so there, and what a
// person in Kubernetes does about it. The others' words are true in both places.
var inKubernetes = map[string]func(f face, b *control.BlockerStatus){
	"settings-differ": func(f face, b *control.BlockerStatus) {
		b.Sentence = fmt.Sprintf("%s differs between pods (%s), and the daemon that leads, or takes the backup, uses its own value. Pods are replaced one after the other until all have the same", f.text("flag"), f.text("values"))
		b.Command = f.kubectl("get pods --selector etcdadm.io/cluster=" + f.Name)
	},
	"no-host": func(f face, b *control.BlockerStatus) {
		const way = ". The operator makes another host, which needs a machine that carries none of this cluster; spec.spareHosts keeps one ready"
		switch {
		case f.has("wanted"):
			b.Sentence = fmt.Sprintf("%s of %s voters are there, and no host is free%s", f.text("voters"), f.text("wanted"), f.text("because")) + way
		case f.has("why"):
			b.Sentence = fmt.Sprintf("voter %s is dead (%s), and no host is free to take its place%s", f.text("voter"), f.text("why"), f.text("because")) + way
		default:
			b.Sentence = fmt.Sprintf("voter %s is to make way, and no host is free to take its place%s", f.text("voter"), f.text("because")) + way
		}
	},
	"options-left-out": func(f face, b *control.BlockerStatus) {
		b.Sentence += ". Take them out of spec.options, or set spec.version to one that has them"
		b.Command = f.edit()
	},
	"options-refused": func(f face, b *control.BlockerStatus) {
		b.Sentence = f.text("refused") + "; no other member gets them. Take what it refuses out of spec.options; the pod's log says why it does"
		b.Command = f.edit()
	},
	"backup-unprotected": func(f face, b *control.BlockerStatus) {
		b.Sentence += ". Name who may read them in spec.backup.recipients; the next backup is encrypted then"
		b.Command = f.edit()
	},
	"store-silent": func(f face, b *control.BlockerStatus) {
		if f.has("backup") { // it waits for the store of backups
			return
		}
		b.Sentence, b.Command = f.record("cannot read", f.text("detail")+f.text("unstored"))
	},
	"store-unwritten": func(f face, b *control.BlockerStatus) {
		b.Sentence, b.Command = f.record("cannot write in time", f.text("what"))
	},
	"no-release": func(f face, b *control.BlockerStatus) {
		if !f.has("host") {
			return
		}
		b.Sentence = fmt.Sprintf("the pod of %s has no etcd %s, which the cluster runs. Put an image that has it into spec.releases, or have the hosts' image carry it", f.text("host"), f.text("release"))
		b.Command = f.edit()
	},
	decide.NoQuorum: func(f face, b *control.BlockerStatus) {
		switch {
		case f.has("leftSeconds"):
			b.Sentence = "quorum lost; unless it comes back, the cluster recovers from the furthest survivor in " + f.time("leftSeconds") + " (spec.recovery), which may lose writes"
		case f.has("afterSeconds") && f.has("missing"):
			b.Sentence = "quorum lost" + f.text("missing") + ". They may serve without this side: look at their pods and machines, and at the network between, first. What helps without them is offered once the loss has lasted " + f.time("afterSeconds") + " (spec.replaceAfter)"
		}
	},
}

// Told are the blockers that the daemons of an EtcdCluster told, as a person beside it reads them. The operator's own
// pauses are none: Ready says how far they are.
func Told(ec *v1alpha1.EtcdCluster, told *control.Status) (out []control.BlockerStatus) {
	if ec.Spec.Hosts != nil {
		return slices.Clone(told.Blockers)
	}
	for _, b := range told.Blockers {
		f := face{EtcdCluster: ec}
		known := len(b.Facts) == 0 || json.Unmarshal(b.Facts, &f.facts) == nil
		own := func(p control.PauseStatus) bool { return p.By == decide.Asker && string(p.Host) == f.text("host") }
		if b.Code == "host-paused" && !f.has("until") && !f.has("voter") && slices.ContainsFunc(told.Pauses, own) { // else a voter is away
			continue
		}
		if say := inKubernetes[b.Code]; say != nil && known {
			say(f, &b)
		}
		out = append(out, b)
	}
	return out
}

func (f face) has(name string) bool { return f.facts[name] != nil }

// text is a fact in words; empty: it was not told.
func (f face) text(name string) string {
	if f.facts[name] == nil {
		return ""
	}
	return fmt.Sprint(f.facts[name])
}

// time is one that was told in seconds.
func (f face) time(name string) string {
	seconds, _ := f.facts[name].(float64)
	return duration.Format(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}

func (f face) kubectl(words string) string {
	return (&decide.World{Namespace: f.Namespace}).Kubectl(words)
}

func (f face) edit() string { return f.kubectl("edit etcdclusters.etcdadm.io " + f.Name) }

// record says what is wrong with the cluster's record, which on bare hosts is in their store.
func (f face) record(how, why string) (sentence, command string) {
	names := shape.Cluster{Name: f.Name}
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Sprintf("the daemons %s the cluster's record, the ConfigMaps %s and %s%s: members serve all the same, and nothing else is changed meanwhile. Do the pods reach the API server, and is the Role %s there?", how, names.ControlName(), names.StatusName(), why, names.AccountName()),
		f.kubectl("get configmaps " + names.ControlName() + " " + names.StatusName())
}
