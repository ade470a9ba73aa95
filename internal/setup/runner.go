package setup

import (
	"context"

	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
)

// Service starts the agent: systemd by a unit ([unit.Systemd]), or a kubelet by a static pod ([staticpod.Kubelet]).
type Service interface {
	// Check is an error where the service manager does not run.
	Check(context.Context) error
	// Active tells whether the agent runs.
	Active(context.Context) (bool, error)
	// Start starts the agent if it does not run, now and with the machine.
	Start(context.Context) error
}

// Runner is all that is asked of the service manager that has the agent.
type Runner interface {
	Service
	// Stop ends the agent, and has it not start with the machine any more. It waits for its end.
	Stop(context.Context) error
	// Reload is called when the file that the agent was started by is gone.
	Reload(context.Context) error
	// Journal is the last lines that the agent has logged.
	Journal(ctx context.Context, lines int) ([]byte, error)
}

// Pod says that the agent is to run as a static pod. The zero value is good for most.
type Pod struct {
	Manifests string // the kubelet's directory of static pods; empty: DefaultManifests
	Image     string // empty: that of the manifest which is there, else DefaultImage
}

// DefaultManifests is where kubeadm has the kubelet look for static pods.
const DefaultManifests = "/etc/kubernetes/manifests"

// DefaultImage is the image of a release, by the name that its archive has; see tools/release.
func DefaultImage(release string) string { return "localhost/etcdadm:" + release }

// probePort is where the agent of a static pod answers the kubelet's probes.
const probePort = "8002"

// Words are how people speak of an agent's service.
type Words struct {
	Name   string // such as etcdadm.service
	Log    string // the command that shows the agent's log
	State  string // the command that shows whether it runs
	Reload string // the command by which it takes changed settings
}

var unitWords = Words{Name: unit.Name, Log: "journalctl -u etcdadm", State: "systemctl status etcdadm", Reload: "systemctl reload etcdadm"}

func podWords(file string) Words {
	const of = "crictl ps --name " + staticpod.Name
	return Words{Name: "static pod " + file, Log: "crictl logs $(" + of + " -a -q | head -n 1)", State: of + " -a", Reload: "crictl stop $(" + of + " -q)"}
}
