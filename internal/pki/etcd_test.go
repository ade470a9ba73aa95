package pki

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"etcdadm.io/internal/testetcd"
)

// Two real etcd members take the certificates on both ports, with authentication of clients and peers; a client of
// another authority or without a certificate is refused; and a renewed leaf is presented without a restart.
func TestRealEtcd(t *testing.T) {
	now := time.Now()
	all, err := Create(filepath.Join(t.TempDir(), "pki"), now)
	must(t, err)
	etcd := testetcd.Binary(t, testetcd.V37).Etcd
	var clientURLs, peerURLs, initial []string
	for i := range 2 {
		clientURLs = append(clientURLs, fmt.Sprintf("https://127.0.0.1:%d", testetcd.FreePort(t)))
		peerURLs = append(peerURLs, fmt.Sprintf("https://127.0.0.1:%d", testetcd.FreePort(t)))
		initial = append(initial, fmt.Sprintf("h%d=%s", i, peerURLs[i]))
	}
	clientsDir := make([]string, 2)
	for i := range 2 {
		id, dir := fmt.Sprintf("h%d", i), t.TempDir()
		peers := filepath.Join(dir, "peers")
		clientsDir[i] = filepath.Join(dir, "clients")
		peer, err := PeerRequest(id, peerURLs[i:i+1], nil, DefaultLifetime())
		must(t, err)
		server, err := ServerRequest(id, clientURLs[i:i+1], nil, DefaultLifetime())
		must(t, err)
		must(t, second(Ensure(peers, PeerNames, all.Peers, peer, now)))
		must(t, second(Ensure(clientsDir[i], ServerNames, all.Clients, server, now)))
		args := []string{
			"--name", id, "--data-dir", filepath.Join(dir, "data"), "--initial-cluster", strings.Join(initial, ","),
			"--listen-client-urls", clientURLs[i], "--advertise-client-urls", clientURLs[i],
			"--listen-peer-urls", peerURLs[i], "--initial-advertise-peer-urls", peerURLs[i],
			"--client-cert-auth", "--trusted-ca-file", filepath.Join(clientsDir[i], "ca.crt"),
			"--cert-file", filepath.Join(clientsDir[i], "server.crt"), "--key-file", filepath.Join(clientsDir[i], "server.key"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file", filepath.Join(peers, "ca.crt"),
			"--peer-cert-file", filepath.Join(peers, "me.crt"), "--peer-key-file", filepath.Join(peers, "me.key"),
		}
		run(t, filepath.Join(dir, "log"), etcd, args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	request, err := ClientRequest("root", DefaultLifetime())
	must(t, err)
	root := issued(t, all.Clients, request, now)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: all.Clients.Pool(), Certificates: []tls.Certificate{*root.TLS()}}
	for _, url := range clientURLs { // each alone: a write through it shows that the peers talk
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, TLS: cfg, Logger: zap.NewNop(), Context: ctx})
		must(t, err)
		defer c.Close()
		must(t, second(c.Put(ctx, "k", url)))
	}
	// etcd's gateway dials the member with the server's certificate.
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}, Timeout: 10 * time.Second}
	defer web.CloseIdleConnections()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, clientURLs[0]+"/v3/maintenance/status", strings.NewReader("{}"))
	must(t, err)
	reply, err := web.Do(post)
	must(t, err)
	body, _ := io.ReadAll(reply.Body)
	reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Errorf("gateway: %s %s", reply.Status, body)
	}

	address := strings.TrimPrefix(clientURLs[0], "https://")
	serial := func(cfg *tls.Config) (string, error) {
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		// A refusal of our certificate comes with the first read.
		fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, err = io.ReadAll(conn)
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), err
	}
	before, err := serial(cfg)
	must(t, err)
	request, err = ServerRequest("h0", clientURLs[:1], []string{"h0.example"}, DefaultLifetime())
	must(t, err)
	renewed, err := Ensure(clientsDir[0], ServerNames, all.Clients, request, now)
	must(t, err)
	after, err := serial(cfg)
	must(t, err)
	if renewed.Issued == "" || before == after || after != renewed.Pair.Leaf().SerialNumber.String() {
		t.Errorf("renewed because %q: %s became %s", renewed.Issued, before, after)
	}
	peerCert := issued(t, all.Peers, hostRequest(t, "h1", "127.0.0.1"), now)
	for name, certs := range map[string][]tls.Certificate{"no certificate": nil, "one of the peers' authority": {*peerCert.TLS()}} {
		if _, err := serial(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: all.Clients.Pool(), Certificates: certs}); err == nil {
			t.Errorf("etcd took a client with %s", name)
		}
	}
}

// run keeps a process for the time of the test, and shows the end of its log when the test fails.
func run(t *testing.T, logFile, path string, args []string) {
	t.Helper()
	log, err := os.Create(logFile)
	must(t, err)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "ETCD_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		log.Close()
		if data, err := os.ReadFile(logFile); t.Failed() && err == nil {
			t.Logf("%s", data[max(0, len(data)-3000):])
		}
	})
}
