// Package pods tests the agent as a static pod: a real kubelet, containerd and kube-apiserver on each of three machines.
//
//	go run ./internal/testkube/cmd/fetch
//	go test ./e2e/pods -v -e2e.kubelet
//
// As root, on Linux, with containerd, runc, ip, nsenter, unshare and curl. A machine has a network, processes, mounts and
// files of its own, over a copy of this machine's files; the kubelet is alone, without an API server above it.
package pods

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testkube"
)

const (
	// bootWithin is for containerd and a kubelet, beside other tests.
	bootWithin = 2 * time.Minute
	// commandWithin bounds a command in a machine, a join with its wait included.
	commandWithin = 3 * time.Minute
	// imageRelease is the tag of the image under test.
	imageRelease = "test"
)

// machine is one with a kubelet.
type machine struct {
	t       *testing.T
	name    string // of its network and its cgroup
	address string
	link    string // its side of the bridge
	bridge  string
	dir     string // a tmpfs with the upper layer
	root    string // the machine's files
	shared  string // programs and images, which all machines read
	leader  int    // its process 1, as this machine numbers it
	ended   chan struct{}
}

// missing is why there are no machines with a kubelet here; empty: there are.
func missing() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "nsenter", "unshare", "curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not on this machine (Debian: containerd, runc, iproute2, util-linux, curl, openssl)"
		}
	}
	for _, program := range []string{testkube.Kubelet, testkube.APIServer} {
		if testkube.Built(program) == "" {
			return program + " is not built: go run ./internal/testkube/cmd/fetch"
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		return "no cgroups of version 1 with memory"
	}
	return ""
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// programs builds what the machines run, static, and packs the images.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w -X etcdadm.io/internal/version.Release="+imageRelease, "-o", dir+"/", "etcdadm.io/cmd/etcdadm", "etcdadm.io/internal/testkube/cmd/pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, from := range map[string][2]string{
		"localhost/pause:1":                            {filepath.Join(dir, "pause"), "/pause"},
		"localhost/etcdadm:" + imageRelease:            {filepath.Join(dir, "etcdadm"), "/usr/bin/etcdadm"},
		"localhost/kube-apiserver:" + testkube.Version: {testkube.Built(testkube.APIServer), "/usr/local/bin/kube-apiserver"},
	} {
		if err := testkube.WriteImage(filepath.Join(dir, filepath.Base(from[0])+".tar"), name, from[0], from[1]); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// boot makes n machines on a network of their own.
func boot(t *testing.T, n int) []*machine {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip("no machines with a kubelet: " + why)
	}
	shared := programs(t)
	tag := fmt.Sprintf("ek%d", os.Getpid()%1000000)
	bridge := tag + "b"
	run(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { run(t, "ip", "link", "del", bridge) })
	run(t, "ip", "link", "set", bridge, "up")
	var all []*machine
	for i := range n {
		m := &machine{t: t, name: fmt.Sprintf("%sm%d", tag, i+1), address: fmt.Sprintf("10.99.78.%d", i+1), bridge: bridge, link: fmt.Sprintf("%sv%d", tag, i+1), shared: shared}
		m.network()
		m.disk()
		m.powerOn()
		all = append(all, m)
	}
	for _, m := range all {
		m.awaitBoot()
	}
	return all
}

func (m *machine) network() {
	t := m.t
	run(t, "ip", "netns", "add", m.name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", m.name) })
	run(t, "ip", "link", "add", m.link, "type", "veth", "peer", "name", "eth0", "netns", m.name)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", m.link).Run() }) // before the name space, which ends when the kernel comes to it
	run(t, "ip", "link", "set", m.link, "master", m.bridge, "up")
	run(t, "ip", "-n", m.name, "link", "set", "lo", "up")
	run(t, "ip", "-n", m.name, "addr", "add", m.address+"/24", "dev", "eth0")
	run(t, "ip", "-n", m.name, "link", "set", "eth0", "up")
	run(t, "ip", "-n", m.name, "route", "add", "default", "via", "10.99.78.254")
}

// moveTo gives the machine another address.
func (m *machine) moveTo(address string) {
	run(m.t, "ip", "-n", m.name, "addr", "flush", "dev", "eth0", "scope", "global")
	m.address = address
	run(m.t, "ip", "-n", m.name, "addr", "add", m.address+"/24", "dev", "eth0")
	run(m.t, "ip", "-n", m.name, "route", "replace", "default", "via", "10.99.78.254")
}

// disk gives the machine an empty disk over a copy of this machine's files.
func (m *machine) disk() {
	t := m.t
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	m.dir, m.root = dir, root
	if err := syscall.Mount("tmpfs", m.dir, "tmpfs", 0, "size=3g"); err != nil {
		t.Skipf("no machines with a kubelet: mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	upper, work := filepath.Join(m.dir, "upper"), filepath.Join(m.dir, "work")
	for _, dir := range []string{upper, work, m.root, filepath.Join(m.dir, "lib")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("overlay", m.root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)); err != nil {
		t.Skipf("no machines with a kubelet: mount an overlay: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })                                                  // before its directory is removed, which shows this machine's files
	for _, dir := range []string{"etc/kubernetes", "etc/etcdadm", "etc/etcd", "var/lib/etcdadm", "opt/bin", "oldroot"} { // whatever this machine has of them is not the other's
		if err := os.RemoveAll(filepath.Join(m.root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"etc/kubernetes/manifests", "etc/kubernetes/pki", "machine", "oldroot"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("machine/up", up, 0o755)
	m.write("machine/containerd.toml", `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/machine/none"
    conf_dir = "/machine/none"
`, 0o644)
	m.write("machine/kubelet.yaml", `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /`+m.name+`
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
oomScoreAdj: 0
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
staticPodPath: /etc/kubernetes/manifests
enableServer: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
`, 0o644)
}

func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, path), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

// up is the machine's process 1. Arguments: the name, the programs' and images' directory, the kubelet. The kubelet
// sets some of the kernel's settings, which are this machine's: it finds them set already, in files.
const up = `#!/bin/bash
name=$1 shared=$2 kubelet=$3
mount -t proc proc /proc
mount --rbind /oldroot/sys /sys
mount --rbind /oldroot/dev /dev
mount -t tmpfs tmpfs /run
mkdir -p /var/lib/containerd /var/lib/kubelet
mount --bind "/oldroot$4/containerd" /var/lib/containerd
mount --bind "/oldroot$4/kubelet" /var/lib/kubelet
umount -l /oldroot
mount --make-rshared /
hostname "$name"
for kv in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  f=/run/$(basename "${kv%=*}"); echo "${kv#*=}" >"$f"; mount --bind "$f" "/proc/sys/${kv%=*}"
done
for d in /sys/fs/cgroup/*; do
  mkdir -p "$d/$name"
  for f in cpuset.cpus cpuset.mems; do [ ! -e "$d/$f" ] || cat "$d/$f" >"$d/$name/$f"; done
done
export PATH=/machine/bin:$PATH
keep() { local log=/var/log/machine-$1.log; shift; (while :; do "$@" >>"$log" 2>&1 </dev/null; echo "--- ended with $?" >>"$log"; sleep 1; done) & }
keep containerd containerd -c /machine/containerd.toml
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for image in "$shared"/*.tar; do ctr -n k8s.io images import "$image" >>/var/log/machine-import.log 2>&1; done
touch /run/imported
keep kubelet "$kubelet" --config=/machine/kubelet.yaml --hostname-override="$name"
while :; do wait; sleep 1; done
`

func (m *machine) powerOn() {
	t := m.t
	for _, dir := range []string{"containerd", "kubelet"} {
		if err := os.MkdirAll(filepath.Join(m.dir, "lib", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	console, err := os.OpenFile(filepath.Join(m.dir, "console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	cmd := exec.Command("nsenter", "--net=/run/netns/"+m.name, "unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--propagation", "private",
		"bash", "-c", `cd "$0" && pivot_root . oldroot && cd / && exec /machine/up "$@"`, m.root, m.name, m.shared, testkube.Built(testkube.Kubelet), filepath.Join(m.dir, "lib"))
	cmd.Stdout, cmd.Stderr = console, console
	// It ends with this program, and with it everything in the machine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	m.ended, m.leader = ended, 0
	pid := cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	for deadline := time.Now().Add(bootWithin); m.leader == 0; time.Sleep(50 * time.Millisecond) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		m.leader, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		if time.Now().After(deadline) {
			t.Fatal("the machine does not start")
		}
	}
	t.Cleanup(m.powerOff)
}

// powerOff takes the power from the machine: all its processes end at once.
func (m *machine) powerOff() {
	if m.leader == 0 {
		return
	}
	_ = syscall.Kill(m.leader, syscall.SIGKILL)
	select {
	case <-m.ended:
	case <-time.After(30 * time.Second):
		m.t.Errorf("%s does not end", m.name)
	}
	m.leader = 0
	deadline := time.Now().Add(20 * time.Second)
	for { // its cgroups are this machine's
		_ = exec.Command("sh", "-c", `find /sys/fs/cgroup/*/"$0" -depth -type d -exec rmdir {} + 2>/dev/null`, m.name).Run()
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + m.name); len(left) == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (m *machine) awaitBoot() {
	m.t.Helper()
	m.within(bootWithin, "a kubelet that is healthy", func() bool {
		code, _, _ := m.command("curl", "-sf", "http://127.0.0.1:10248/healthz")
		return code == 0
	})
}

// command runs a command in the machine.
func (m *machine) command(args ...string) (code int, out, errs string) {
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(m.leader), "--net", "--mount", "--uts", "--pid", "--"}, args...)...)
	cmd.Env = []string{"PATH=" + m.shared + ":" + os.Getenv("PATH"), "HOME=/root"}
	cmd.Dir = "/"
	cmd.WaitDelay = 5 * time.Second
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		return -1, o.String(), err.Error()
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// must is a command that has to succeed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	code, out, errs := m.command(args...)
	if code != 0 {
		m.t.Fatalf("%s: %s: exit code %d\n%s%s", m.name, strings.Join(args, " "), code, out, errs)
	}
	return out
}

// agents are the processes of the agent, and etcds those of etcd, in the machine's numbers.
func (m *machine) agents() string { return m.processes("-f", "^/usr/bin/etcdadm auto ") }
func (m *machine) etcds() string  { return m.processes("-x", "etcd") }

func (m *machine) processes(by, pattern string) string {
	_, out, _ := m.command("pgrep", by, pattern)
	return strings.Join(strings.Fields(out), " ")
}

// within waits until it is so.
func (m *machine) within(most time.Duration, what string, is func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(most); !is(); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: not within %s: %s", m.name, most, what)
		}
	}
}

// logs shows the ends of a machine's logs, of a test that failed.
func (m *machine) logs() {
	if m.leader == 0 {
		return
	}
	for _, pattern := range []string{"/var/log/machine-kubelet.log", "/var/log/pods/kube-system_etcdadm-*/etcdadm/*.log", "/var/log/pods/kube-system_kube-apiserver-*/kube-apiserver/*.log"} {
		_, out, _ := m.command("sh", "-c", "tail -n 40 "+pattern)
		m.t.Logf("%s of %s:\n%s", pattern, m.name, out)
	}
}
