package pods

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
	"etcdadm.io/internal/testkube"
)

var withKubelet = flag.Bool("e2e.kubelet", false, "run the agent under a real kubelet, beside a real kube-apiserver (they are built first: minutes)")

const (
	// servesWithin is for three members and what a restore waits for, on a machine with other work.
	servesWithin = 3 * time.Minute
	// replacedWithin is for a member that has to be silent for two minutes first.
	replacedWithin = 6 * time.Minute
	manifest       = "/etc/kubernetes/manifests/etcdadm.yaml"
)

// Three hosts of a control plane become a cluster by static pods, and are what kube-apiserver runs on. Then each is lost
// in turn: a container, a kubelet, a machine, the present, all data.
func TestControlPlane(t *testing.T) {
	if !*withKubelet {
		t.Skip("with -e2e.kubelet")
	}
	all := boot(t, 3)
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range all {
				m.logs()
			}
		}
	})
	refusals(t, all[0])
	out := all[0].must("etcdadm", "init", "--static-pod", "--host-id", "m1")
	t.Logf("\n%s", out)
	join := regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(out)
	if join == nil {
		t.Fatalf("no command to join is printed:\n%s", out)
	}
	for i, m := range all[1:] {
		t.Logf("\n%s", m.must(append(strings.Fields(join[1]), "--static-pod", "--host-id", fmt.Sprintf("m%d", i+2))...))
	}
	for _, m := range all {
		m.healthy(3)
	}
	t.Logf("\n%s\n%s", all[1].must("etcdadm", "status"), all[1].must("etcdadm", "info"))
	began := time.Now()
	step := func(what string) {
		t.Logf("%3.0f s: %s", time.Since(began).Seconds(), what)
	}
	step("another image")
	replaced(t, all[1], append(strings.Fields(join[1]), "--static-pod", "--host-id", "m2"))
	manifests := map[string]string{}
	for _, m := range all {
		manifests[m.name] = m.must("cat", manifest)
	}

	step("the container is killed")
	killed(t, all[1])
	step("the kubelet is restarted")
	restarted(t, all[1])
	apiServers(t, all)
	step("one host of three is lost")
	oneLost(t, all)
	step("back in time")
	backInTime(t, all)
	step("all data is lost")
	allLost(t, all)
	for _, m := range all[:2] { // nobody has moved any, and nothing has rewritten it
		if now := m.must("cat", manifest); now != manifests[m.name] {
			t.Errorf("the manifest of %s is another one:\n%s", m.name, now)
		}
	}
	step("reset")
	reset(t, all[2])
	step("the end")
}

// healthy waits until so many voters are up, as this machine is told.
func (m *machine) healthy(voters int) {
	m.t.Helper()
	last := ""
	defer func() {
		if m.t.Failed() {
			m.t.Logf("%s was told last:\n%s", m.name, last)
		}
	}()
	m.within(servesWithin, fmt.Sprintf("%d of %[1]d voters are up", voters), func() bool {
		code, out, errs := m.command("etcdadm", "status")
		last = out + errs
		return code == cli.ExitOK && strings.Contains(out, fmt.Sprintf("%d of %[1]d voters are up", voters))
	})
}

// refusals: nothing is begun beside another etcd, or without a kubelet's directory.
func refusals(t *testing.T, m *machine) {
	m.write("etc/kubernetes/etcd.yaml", "kind: Pod\nmetadata: {name: etcd}\nspec: {containers: [{name: etcd, image: 'registry.k8s.io/etcd:3.6.5-0'}]}\n", 0o600)
	m.must("mkdir", "/etc/kubernetes/other")
	m.must("mv", "/etc/kubernetes/etcd.yaml", "/etc/kubernetes/other/")
	for _, dir := range []string{"/etc/kubernetes/other", "/etc/kubernetes/none"} {
		if code, _, errs := m.command("etcdadm", "init", "--static-pod", "--manifests-dir", dir); code != cli.ExitUnsafe || !strings.Contains(errs, "other static pods") {
			t.Errorf("in %s: exit code %d: %s", dir, code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(m.root, "etc/etcdadm")); err == nil {
		t.Error("something was made")
	}
}

// replaced: the same line with another image has the kubelet end the pod, which stops its etcd in time, and start another.
func replaced(t *testing.T, m *machine, line []string) {
	const image = "localhost/etcdadm:other"
	m.must("ctr", "-n", "k8s.io", "images", "tag", "localhost/etcdadm:"+imageRelease, image)
	agent := m.agents()
	t.Logf("\n%s", m.must(append(line, "--image", image)...))
	m.within(servesWithin, "another agent", func() bool { now := m.agents(); return now != "" && now != agent })
	m.healthy(3)
	if now := m.must("cat", manifest); !strings.Contains(now, image) {
		t.Errorf("the manifest has another image:\n%s", now)
	}
	// The kubelet has removed the log of the first pod; etcd's is on the host.
	if log := m.must("cat", "/var/lib/etcdadm/logs/etcd.log"); !strings.Contains(log, "received signal; shutting down") {
		t.Errorf("etcd was not stopped:\n%s", log)
	}
	// What helps others to help has the log of the pod.
	m.must("etcdadm", "support-bundle", "/root/bundle.tar.gz")
	if log := m.must("sh", "-c", "tar -xzOf /root/bundle.tar.gz --wildcards '*agent.log'"); !strings.Contains(log, "daemon is up") {
		t.Errorf("the bundle has no log of the agent:\n%s", log)
	}
}

// killed: the kubelet starts the container again, and etcd with it.
func killed(t *testing.T, m *machine) {
	agent, etcd := m.agents(), m.etcds()
	if agent == "" || etcd == "" {
		t.Fatalf("agent %q, etcd %q", agent, etcd)
	}
	m.must("kill", "-9", agent)
	m.within(servesWithin, "another agent with another etcd", func() bool {
		a, e := m.agents(), m.etcds()
		return a != "" && a != agent && e != "" && e != etcd
	})
	m.healthy(3)
}

// restarted: the container runs on without a kubelet.
func restarted(t *testing.T, m *machine) {
	agent, etcd, kubelet := m.agents(), m.etcds(), m.processes("-f", "^/.*/kubelet --config")
	m.must("kill", "-9", kubelet)
	m.within(bootWithin, "another kubelet", func() bool { now := m.processes("-f", "^/.*/kubelet --config"); return now != "" && now != kubelet })
	m.awaitBoot()
	m.healthy(3)
	if a, e := m.agents(), m.etcds(); a != agent || e != etcd {
		t.Errorf("agent %s is %s, etcd %s is %s", agent, a, etcd, e)
	}
}

// apiServers puts a kube-apiserver onto each machine, as kubeadm does with an external etcd.
func apiServers(t *testing.T, all []*machine) {
	keys := t.TempDir()
	run(t, "openssl", "genrsa", "-out", filepath.Join(keys, "sa.key"), "2048")
	run(t, "openssl", "rsa", "-in", filepath.Join(keys, "sa.key"), "-pubout", "-out", filepath.Join(keys, "sa.pub"))
	for _, m := range all {
		m.apiServer(t, keys, all)
	}
	for _, m := range all {
		m.apiReady()
	}
}

func (m *machine) apiServer(t *testing.T, keys string, all []*machine) {
	t.Helper()
	m.must("etcdadm", "certs", "issue", "--for", "kube-apiserver")
	for _, name := range []string{"sa.key", "sa.pub"} {
		data, err := os.ReadFile(filepath.Join(keys, name))
		if err != nil {
			t.Fatal(err)
		}
		m.write("etc/kubernetes/pki/"+name, string(data), 0o600)
	}
	m.write("etc/kubernetes/pki/tokens.csv", "test,admin,1,system:masters\n", 0o600)
	var etcd []string
	for _, o := range all {
		etcd = append(etcd, "https://"+o.address+":2379")
	}
	m.write("etc/kubernetes/kube-apiserver.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: kube-apiserver
    image: localhost/kube-apiserver:%s
    imagePullPolicy: Never
    args:
    - --etcd-servers=%s
    - --etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt
    - --etcd-certfile=/etc/kubernetes/pki/apiserver-etcd-client.crt
    - --etcd-keyfile=/etc/kubernetes/pki/apiserver-etcd-client.key
    - --secure-port=6443
    - --advertise-address=%s
    - --cert-dir=/certs
    - --token-auth-file=/etc/kubernetes/pki/tokens.csv
    - --authorization-mode=RBAC
    - --service-account-issuer=https://kubernetes.default.svc
    - --service-account-key-file=/etc/kubernetes/pki/sa.pub
    - --service-account-signing-key-file=/etc/kubernetes/pki/sa.key
    - --service-cluster-ip-range=10.96.0.0/16
    livenessProbe:
      httpGet: {host: %[3]s, path: /livez, port: 6443, scheme: HTTPS}
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
      failureThreshold: 8
    volumeMounts:
    - {name: pki, mountPath: /etc/kubernetes/pki, readOnly: true}
    - {name: certs, mountPath: /certs}
  volumes:
  - {name: pki, hostPath: {path: /etc/kubernetes/pki, type: Directory}}
  - {name: certs, emptyDir: {}}
`, testkube.Version, strings.Join(etcd, ","), m.address), 0o600)
	m.must("mv", "/etc/kubernetes/kube-apiserver.yaml", "/etc/kubernetes/manifests/")
}

// api asks this machine's API server.
func (m *machine) api(method, path, body string) (answer string, status string) {
	_, out, errs := m.command("curl", "-sk", "-m", "10", "-X", method, "-H", "Authorization: Bearer test", "-H", "Content-Type: application/json",
		"-d", body, "-w", "\n%{http_code}", "https://"+m.address+":6443"+path)
	i := strings.LastIndex(out, "\n")
	if i < 0 {
		return errs, ""
	}
	return out[:i], out[i+1:]
}

func (m *machine) apiReady() {
	m.t.Helper()
	m.within(servesWithin, "the API server is ready", func() bool { _, status := m.api("GET", "/readyz", ""); return status == "200" })
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// note writes a config map by the API server of this machine; the way may have to be found anew after a loss.
func (m *machine) note(name string) {
	m.t.Helper()
	m.within(servesWithin, "the config map "+name+" is written", func() bool {
		_, status := m.api("POST", configMaps, `{"metadata":{"name":"`+name+`"}}`)
		return status == "201" || status == "409" // it was written before, and the answer was lost
	})
}

// has tells whether the API server of this machine has a config map, by a read through etcd.
func (m *machine) has(name string) bool {
	m.t.Helper()
	var status string
	m.within(servesWithin, "an answer about the config map "+name, func() bool {
		_, status = m.api("GET", configMaps+"/"+name, "")
		return status == "200" || status == "404"
	})
	return status == "200"
}

// listed are the config maps that begin with c-, as the watch cache of this machine's API server has them, and its
// resource version.
func (m *machine) listed() (names []string, version string) {
	answer, status := m.api("GET", configMaps+"?resourceVersion=0", "")
	if status != "200" {
		return nil, ""
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct{ Metadata struct{ Name string } }
	}
	if json.Unmarshal([]byte(answer), &list) != nil {
		return nil, ""
	}
	for _, i := range list.Items {
		if strings.HasPrefix(i.Metadata.Name, "c-") {
			names = append(names, i.Metadata.Name)
		}
	}
	return names, list.Metadata.ResourceVersion
}

// lists waits until the watch caches of all API servers have these config maps and no others.
func lists(t *testing.T, all []*machine, want ...string) {
	t.Helper()
	for _, m := range all {
		var now []string
		m.within(servesWithin, fmt.Sprintf("the watch cache has %q", want), func() bool {
			now, _ = m.listed()
			return slices.Equal(now, want)
		})
	}
}

// servers are the processes of the API server.
func (m *machine) servers() string { return m.processes("-f", "^/usr/local/bin/kube-apiserver ") }

// oneLost: a new machine joins, and takes the place of the member that is silent. Nothing else is done.
func oneLost(t *testing.T, all []*machine) {
	all[0].note("c-one")
	lost := all[2]
	lost.powerOff()
	all[0].note("c-two") // two of three serve
	lost.disk()
	lost.moveTo("10.99.78.4")
	lost.powerOn()
	lost.awaitBoot()
	join := regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(all[0].must("etcdadm", "token", "create", "--uses", "1"))
	t.Logf("\n%s", lost.must(append(strings.Fields(join[1]), "--static-pod", "--host-id", "m4")...))
	all[0].within(replacedWithin, "the lost member is replaced", func() bool {
		_, out, _ := all[0].command("etcdadm", "status")
		return strings.Contains(out, "3 of 3 voters are up") && regexp.MustCompile(`(?m)^m4 +[0-9a-f]+ +voter`).MatchString(out)
	})
	for _, m := range all {
		m.healthy(3)
	}
	lost.apiServer(t, filepath.Join(all[0].root, "etc/kubernetes/pki"), all)
	lost.apiReady()
	lists(t, all, "c-one", "c-two")
}

// backup takes one, and gives its name.
func (m *machine) backup() string {
	m.t.Helper()
	out := m.must("etcdadm", "backup", "create", "--wait", "2m")
	made := regexp.MustCompile(`done: backup (\S+)`).FindStringSubmatch(out)
	if made == nil {
		m.t.Fatalf("no backup is named: %s", out)
	}
	return made[1]
}

// backInTime: what was written since a backup is gone, also for API servers that run on.
func backInTime(t *testing.T, all []*machine) {
	m := all[1]
	name := m.backup()
	m.note("c-three")
	servers := map[string]string{}
	for _, m := range all {
		lists(t, []*machine{m}, "c-one", "c-three", "c-two")
		servers[m.name] = m.servers()
	}
	code, _, preview := m.command("etcdadm", "restore", name)
	t.Logf("\n%s", preview)
	for _, want := range []string{"THE CLUSTER IS HEALTHY: 3 of 3 voters are up", "after the backup's", "kube-apiserver", "encryption"} {
		if !strings.Contains(preview, want) {
			t.Errorf("the preview does not say %q", want)
		}
	}
	if code != cli.ExitUnsafe {
		t.Errorf("exit code %d", code)
	}
	t.Logf("\n%s", m.must("etcdadm", "restore", name, "--yes", "--wait", "3m"))
	for _, m := range all {
		m.healthy(3)
		m.apiReady()
	}
	lists(t, all, "c-one", "c-two")
	m.note("c-four")
	lists(t, all, "c-four", "c-one", "c-two")
	for _, m := range all {
		if m.has("c-three") {
			t.Errorf("%s has what was written since the backup", m.name)
		}
		if now := m.servers(); now != servers[m.name] {
			t.Errorf("the API server of %s was %s and is %s", m.name, servers[m.name], now)
		}
	}
}

// allLost: etcd's data is gone on all hosts. One command on one of them brings a member up; the others set aside what is
// of the generation before, and join.
func allLost(t *testing.T, all []*machine) {
	name := all[0].backup()
	all[0].note("c-five")
	for _, m := range all {
		m.must("sh", "-c", "kill -9 "+m.agents()+" && rm -rf /var/lib/etcdadm/data")
	}
	all[2].within(servesWithin, "the loss is told, with the way out", func() bool {
		_, out, errs := all[2].command("etcdadm", "status")
		return strings.Contains(out+errs, "etcdadm restore")
	})
	_, status, _ := all[2].command("etcdadm", "status")
	t.Logf("\n%s", status)
	t.Logf("\n%s", all[2].must("etcdadm", "restore", name, "--yes", "--wait", "3m"))
	for _, m := range all {
		m.healthy(3)
		m.apiReady()
	}
	all[1].note("c-six")
	lists(t, all, "c-four", "c-one", "c-six", "c-two")
}

// reset takes away the manifest that was made here, and no other, and ends the container.
func reset(t *testing.T, m *machine) {
	m.must("etcdadm", "reset", "--yes")
	if left := m.must("ls", "/etc/kubernetes/manifests"); left != "kube-apiserver.yaml\n" {
		t.Errorf("in the kubelet's directory: %s", left)
	}
	if agents, etcds := m.agents(), m.etcds(); agents != "" || etcds != "" {
		t.Errorf("agents %s and etcds %s run on", agents, etcds)
	}
	if _, out, _ := m.command("sh", "-c", "ls -d /etc/etcdadm/agent.env /var/lib/etcdadm /etc/etcdadm/reset-*/etcdadm.yaml"); strings.Count(out, "\n") != 1 {
		t.Errorf("%s", out)
	}
}
