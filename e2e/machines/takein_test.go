package machines

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// authorityOf is a certificate authority as etcdadm of kubernetes-sigs makes it, made with Go's library alone.
type authorityOf struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authorityOf {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authorityOf{cert, der, key}
}

// pair is a certificate and its key as PEM.
func (a authorityOf) pair(t *testing.T, name string, usages []x509.ExtKeyUsage, ips ...string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages, DNSNames: []string{"localhost", name},
	}
	for _, ip := range ips {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM(t, k)
}

func keyPEM(t *testing.T, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// write puts a file on the machine.
func (b *booted) write(path, text string, mode os.FileMode) {
	b.t.Helper()
	at := filepath.Join(b.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// noReleases is the root below which the programs under test look for releases: the tests' own of package rig.
const noReleases = "/nonexistent"

// release puts a release of etcd where the agent finds it, or a program of it elsewhere.
func (b *booted) release(version string) {
	b.t.Helper()
	r := testetcd.Binary(b.t, version)
	for _, dir := range []string{filepath.Join(noReleases, "opt/etcd-v"+version), "/opt/bin"} {
		b.put(r.Etcd, filepath.Join(dir, "etcd"), nil)
		b.put(r.Etcdctl, filepath.Join(dir, "etcdctl"), nil)
	}
}

const (
	serverAuth = x509.ExtKeyUsageServerAuth
	clientAuth = x509.ExtKeyUsageClientAuth
)

// formerNodes makes of the machines a cluster exactly as etcdadm of kubernetes-sigs leaves one: its paths, unit, file with the
// environment, and certificates (FORMATS.md).
func formerNodes(t *testing.T, version string, all []*booted) {
	t.Helper()
	ca := newAuthority(t)
	var initial []string
	for i, b := range all {
		initial = append(initial, fmt.Sprintf("node%d=https://%s:2380", i+1, b.address))
	}
	for i, b := range all {
		b.release(version)
		name := fmt.Sprintf("node%d", i+1)
		const pki = "etc/etcd/pki/"
		b.write(pki+"ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.der})), 0o644)
		b.write(pki+"ca.key", string(keyPEM(t, ca.key)), 0o600)
		for file, usages := range map[string][]x509.ExtKeyUsage{
			"server": {serverAuth, clientAuth}, "peer": {serverAuth, clientAuth}, "etcdctl-etcd-client": {clientAuth}, "apiserver-etcd-client": {clientAuth},
		} {
			cert, key := ca.pair(t, name, usages, b.address, "127.0.0.1")
			b.write(pki+file+".crt", string(cert), 0o644)
			b.write(pki+file+".key", string(key), 0o600)
		}
		b.write("etc/etcd/etcd.env", `ETCD_NAME=`+name+`
ETCD_DATA_DIR=/var/lib/etcd
ETCD_LISTEN_CLIENT_URLS=https://`+b.address+`:2379,https://127.0.0.1:2379
ETCD_LISTEN_PEER_URLS=https://`+b.address+`:2380
ETCD_ADVERTISE_CLIENT_URLS=https://`+b.address+`:2379
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://`+b.address+`:2380
ETCD_INITIAL_CLUSTER=`+strings.Join(initial, ",")+`
ETCD_INITIAL_CLUSTER_STATE=new
ETCD_INITIAL_CLUSTER_TOKEN=0123abcd
ETCD_STRICT_RECONFIG_CHECK=true
ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_CERT_FILE=/etc/etcd/pki/server.crt
ETCD_KEY_FILE=/etc/etcd/pki/server.key
ETCD_CLIENT_CERT_AUTH=true
ETCD_PEER_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt
ETCD_PEER_CERT_FILE=/etc/etcd/pki/peer.crt
ETCD_PEER_KEY_FILE=/etc/etcd/pki/peer.key
ETCD_PEER_CLIENT_CERT_AUTH=true
GOMAXPROCS=2
`, 0o644)
		b.write("etc/etcd/etcdctl.env", `export ETCDCTL_API=3
export ETCDCTL_CACERT=/etc/etcd/pki/ca.crt
export ETCDCTL_CERT=/etc/etcd/pki/etcdctl-etcd-client.crt
export ETCDCTL_KEY=/etc/etcd/pki/etcdctl-etcd-client.key
export ETCDCTL_DIAL_TIMEOUT=3s
`, 0o644)
		b.write("opt/bin/etcdctl.sh", "#!/usr/bin/env sh\n. /etc/etcd/etcdctl.env\n/opt/bin/etcdctl \"$@\"\n", 0o755)
		b.write("etc/systemd/system/etcd.service", `[Unit]
Description=etcd
Documentation=https://github.com/coreos/etcd
Conflicts=etcd-member.service
Conflicts=etcd2.service

[Service]
EnvironmentFile=/etc/etcd/etcd.env
ExecStart=/opt/bin/etcd
Type=notify
TimeoutStartSec=0
Restart=on-failure
RestartSec=5s
LimitNOFILE=65536
Nice=-10
IOSchedulingClass=best-effort
IOSchedulingPriority=2

[Install]
WantedBy=multi-user.target
`, 0o644)
	}
	for _, b := range all {
		b.must("systemctl", "daemon-reload")
		b.must("systemctl", "enable", "--quiet", "--now", "--no-block", "etcd")
	}
	for _, b := range all {
		b.until("its etcd is healthy", func() bool {
			code, _, _ := b.command("/opt/bin/etcdctl.sh", "endpoint", "health", "--cluster")
			return code == 0
		})
	}
}

// writing writes through one machine's etcd until it is ended, and tells how often a write failed.
func (b *booted) writing() (end func() (wrote, failed int)) {
	b.t.Helper()
	b.write("usr/local/bin/writes", `#!/bin/sh
. /etc/etcd/etcdctl.env
n=0
while [ ! -e /run/writes-end ]; do
  n=$((n+1))
  if /opt/bin/etcdctl --endpoints="$1" put "w/$n" "$n" >/dev/null 2>&1; then echo ok; else echo failed; fi >>/run/writes
done
`, 0o755)
	var endpoints []string
	for i := 1; i <= 3; i++ {
		endpoints = append(endpoints, fmt.Sprintf("https://10.99.77.%d:2379", i))
	}
	b.must("systemd-run", "--quiet", "--unit=writes", "/usr/local/bin/writes", strings.Join(endpoints, ","))
	return func() (int, int) {
		b.must("touch", "/run/writes-end")
		b.until("the writes end", func() bool {
			_, out, _ := b.command("systemctl", "is-active", "writes")
			return !strings.HasPrefix(out, "active")
		})
		out := b.must("cat", "/run/writes")
		return strings.Count(out, "ok"), strings.Count(out, "failed")
	}
}

// clusterOf is the cluster's ID, and the members' IDs and names, as etcd tells them.
func (b *booted) clusterOf(t *testing.T) (id, members string) {
	t.Helper()
	out := b.must("/opt/bin/etcdctl.sh", "member", "list", "-w", "fields")
	id = regexp.MustCompile(`"ClusterID" : (\d+)`).FindString(out)
	members = strings.Join(regexp.MustCompile(`"(ID|Name)" : .*`).FindAllString(out, -1), "\n")
	return id, members
}

// joins is the line that init has printed.
func joins(t *testing.T, out string) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(out)
	if line == nil {
		t.Fatalf("no command to join is printed:\n%s", out)
	}
	return strings.Fields(line[1])
}

// Three nodes that etcdadm of kubernetes-sigs set up become ours, one after the other, each command interrupted first: the same
// cluster, the same members and certificates, without a failed write.
func TestFromEtcdadm(t *testing.T) {
	all := boot(t, 3)
	formerNodes(t, testetcd.V36, all)
	id, members := all[0].clusterOf(t)
	certificate := all[0].must("cat", "/etc/etcd/pki/peer.crt")
	// What is asked first, and what would be done.
	code, out, errs := all[0].command("etcdadm", "init", "--adopt", "--dry-run")
	t.Logf("\n%s%s", out, errs)
	if code != 0 || !strings.Contains(out, "stop etcd.service") || !strings.Contains(out, "all 3 are up") {
		t.Fatalf("exit code %d", code)
	}
	all[0].refusedSoon(6*time.Second, "2379 is taken", "etcdadm", "init")
	// While a member is down it is refused at once.
	all[2].must("systemctl", "stop", "etcd")
	first := []string{"etcdadm", "init", "--adopt", "--yes"}
	all[0].refusedSoon(20*time.Second, "is not up", first...)
	all[2].must("systemctl", "start", "etcd")
	all[2].until("its etcd is healthy", func() bool {
		code, _, _ := all[2].command("/opt/bin/etcdctl.sh", "endpoint", "health", "--cluster")
		return code == 0
	})
	end := all[2].writing()
	cutShort(all[0], first)
	out = all[0].must(first...)
	t.Logf("\n%s", out)
	line := joins(t, out)
	wrote, failed := 0, 0
	for i, b := range all[1:] {
		line := append(slices.Clone(line), "--yes")
		cutShort(b, line)
		if i == 1 { // and the power is cut
			wrote, failed = end()
			b.powerCycle()
		}
		began := time.Now()
		t.Logf("host %d:\n%s", i+2, b.must(line...))
		t.Logf("it took %s", time.Since(began).Round(10*time.Millisecond))
	}
	for _, b := range all {
		b.until("3 of 3 voters are up, of a cluster with a record", func() bool {
			code, out, _ := b.command("etcdadm", "status")
			return code == 0 && strings.Contains(out, "3 of 3 voters are up")
		})
	}
	t.Logf("%d writes, %d failed", wrote, failed)
	if failed > 0 || wrote == 0 {
		t.Errorf("%d writes failed of %d", failed, wrote)
	}
	if gotID, got := all[1].clusterOf(t); gotID != id || got != members {
		t.Errorf("cluster %s became %s:\n%s\n%s", id, gotID, members, got)
	}
	if n := strings.Count(all[1].must("/opt/bin/etcdctl.sh", "get", "--prefix", "--keys-only", "w/"), "w/"); n != wrote {
		t.Errorf("%d keys are there, %d were written", n, wrote)
	}
	for _, b := range all {
		if code, _, _ := b.command("systemctl", "is-enabled", "etcd"); code == 0 {
			t.Errorf("%s: the old unit starts with the machine", b.name)
		}
		// The old unit cannot start an etcd on an empty directory in the data's place.
		if code, _, _ := b.command("timeout", "20", "systemctl", "start", "etcd"); code == 0 {
			t.Errorf("%s: the old unit starts", b.name)
		}
		b.must("systemctl", "stop", "etcd")
	}
	if got := all[0].must("cat", "/etc/etcd/pki/peer.crt"); got != certificate {
		t.Error("a certificate of the old cluster was changed")
	}
	// It is a cluster like any other: one host goes and its machine comes back empty.
	all[2].must("etcdadm", "reset", "--yes")
}
