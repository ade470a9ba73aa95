package machines

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/kubeadm"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
	"sigs.k8s.io/yaml"
)

// ran is a program that ended, by its words on either channel.
func ran(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// etcdadm runs a command that has to work.
func (m *machine) etcdadm(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := ran(t, filepath.Join(rig.Programs, "etcdadm"), args...)
	if code != 0 {
		t.Fatalf("etcdadm %s: %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// What is issued on a host reaches its etcd, as kubeadm's API server does; what is renewed is served without a restart.
func TestCertificatesByHand(t *testing.T) {
	t.Parallel()
	all, _ := newMachines(t, 1)
	m := all[0]
	done := m.begin(t, "")
	root := "--root=" + m.Paths.Root
	etcdctl := testetcd.Binary(t, testetcd.V37).Etcdctl

	m.etcdadm(t, "certs", "issue", "--for=kube-apiserver", root)
	m.etcdadm(t, "certs", "issue", "--for=healthcheck", root)
	dir := filepath.Join(m.Paths.Root, "etc/kubernetes/pki")
	text := m.etcdadm(t, "kubeadm", "print", "--data-dir="+m.Paths.Data(), "--cert-dir="+dir)
	var config kubeadm.Configuration
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	e := config.Etcd.External
	if strings.Join(e.Endpoints, ",") != done.Etcd {
		t.Errorf("endpoints %v, want %s", e.Endpoints, done.Etcd)
	}
	// The API server's way, by what kubeadm is told.
	serves := func(args ...string) string {
		t.Helper()
		args = append([]string{"--endpoints=" + e.Endpoints[0], "--cacert=" + e.CAFile, "--cert=" + e.CertFile, "--key=" + e.KeyFile}, args...)
		out, errs, code := ran(t, etcdctl, args...)
		if code != 0 {
			t.Fatalf("etcdctl %v: %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	serves("put", "/registry/x", "1")
	if out := serves("get", "/registry/x"); !strings.Contains(out, "\n1\n") {
		t.Errorf("%q", out)
	}
	// And the way of people.
	path := "PATH=" + filepath.Dir(etcdctl) + ":$PATH; "
	for _, line := range []string{". " + m.Paths.Etcdctl() + " && etcdctl endpoint health", m.Paths.EtcdctlScript() + " endpoint health"} {
		if out, errs, code := ran(t, "/bin/sh", "-c", path+line); code != 0 || !strings.Contains(out+errs, "is healthy") {
			t.Errorf("%s: %d\n%s%s", line, code, out, errs)
		}
	}

	served := func() *x509.Certificate {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := pki.LoadAuthorityFiles("ca", e.CAFile, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{pair}}}
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(e.Endpoints[0], "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	}
	process := filepath.Join(m.Paths.Data(), "etcdadm/process.json")
	before, running := served(), read(t, process)
	if out := m.etcdadm(t, "certs", "renew", root); !strings.Contains(out, "nothing to renew: 8 certificates") {
		t.Errorf("%s", out)
	}
	m.etcdadm(t, "certs", "renew", "--all", root)
	if after := served(); after.Equal(before) || after.SerialNumber.Cmp(before.SerialNumber) == 0 {
		t.Error("etcd serves with the certificate that it had before")
	}
	if now := read(t, process); running == "" || now != running {
		t.Errorf("etcd was started again: %s, was %s", now, running)
	}
	serves("get", "/registry/x")
	m.voters(t, 1)

	var listed []certs.Certificate
	if err := json.Unmarshal([]byte(m.etcdadm(t, "certs", "list", "-o=json", root)), &listed); err != nil {
		t.Fatal(err)
	}
	uses := map[string]bool{}
	for _, c := range listed {
		uses[c.For] = true
		if c.State != certs.Good {
			t.Errorf("%+v", c)
		}
	}
	for _, use := range []string{"the agent", "etcd to its peers", "etcd to its clients", "kube-apiserver", "healthcheck"} {
		if !uses[use] {
			t.Errorf("no certificate is for %s: %v", use, uses)
		}
	}
	if len(listed) != 11 {
		t.Errorf("%d certificates are listed, want 11", len(listed))
	}
}
