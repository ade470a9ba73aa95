package etcd_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// driveLearner is drive for a member that is a learner: its peer port tells
// where the voters are.
func driveLearner(t *testing.T, c *testetcd.Cluster, i int, user, password string) *etcd.Client {
	t.Helper()
	d, err := etcd.New(etcd.Config{
		Endpoints:  []string{c.Members[i].ClientURL},
		TLS:        c.ClientTLS(),
		Credential: func(context.Context) (string, string, error) { return user, password, nil },
		Voters: func(ctx context.Context) ([]string, error) {
			return etcd.VoterURLs(ctx, []string{c.Members[i].PeerURL}, nil)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A learner gives out no tokens and wants one for its status. A voter's is
// good there, also after either of the two forgot it, and after the learner has
// become a voter. Nothing of it depends on which tokens the cluster uses.
func TestAuthOfLearner(t *testing.T) {
	t.Parallel()
	for _, tokens := range []string{"simple", "jwt"} {
		t.Run(tokens, func(t *testing.T) {
			forEachRelease(t, func(t *testing.T, version string) { authOfLearner(t, version, tokenArgs(t, tokens)) })
		})
	}
}

func authOfLearner(t *testing.T, version string, args []string) {
	c, _ := start(t, testetcd.Config{Version: version, Args: args})
	ctx := within(t, 120*time.Second)
	if _, err := c.Join(ctx); err != nil {
		t.Fatal(err)
	}
	enableAuth(ctx, t, c.Client(t, 0))
	voters, err := etcd.VoterURLs(ctx, []string{"http://127.0.0.1:1", c.Members[1].PeerURL}, nil)
	if err != nil || !slices.Equal(voters, []string{c.Members[0].ClientURL}) {
		t.Errorf("the learner names the voters %v, %v", voters, err)
	}

	authReaches(ctx, t, drive(t, c, 1, "root", "secret"))
	if s, err := driveLearner(t, c, 1, "root", "guess").Status(ctx); err != nil || !s.Auth {
		t.Errorf("status of a learner with a wrong password: %+v, %v", s, err)
	}
	root := driveLearner(t, c, 1, "root", "secret")
	served := func(what string) {
		t.Helper()
		until(t, 20*time.Second, what, func() error {
			s, err := root.Status(ctx)
			if err == nil && (!s.Learner || !s.Healthy || s.Auth) {
				err = errors.New("it is no healthy learner that answers us")
			}
			return err
		})
	}
	served("status of the learner")
	if err := c.Kill(ctx, 1, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.Launch(ctx, 1); err != nil {
		t.Fatal(err)
	}
	served("status of the learner after its restart")
	if err := c.Restart(ctx, 0); err != nil {
		t.Fatal(err)
	}
	served("status of the learner after the voter's restart")

	voter := drive(t, c, 0, "root", "secret")
	learner := status(t, root).Member
	until(t, 20*time.Second, "promotion", func() error { return voter.Promote(ctx, learner) })
	until(t, 20*time.Second, "status of the new voter", func() error {
		s, err := root.Status(ctx)
		if err == nil && (s.Learner || !s.Healthy) {
			err = errors.New("it is no healthy voter")
		}
		return err
	})
}

// authReaches waits until a learner has heard that auth is on, which a driver
// that knows no voters is refused by: before that it serves anybody.
func authReaches(ctx context.Context, t *testing.T, learner *etcd.Client) {
	t.Helper()
	until(t, 20*time.Second, "auth on the learner", func() error {
		if _, err := learner.Status(ctx); !errors.Is(err, etcd.ErrLearner) {
			return fmt.Errorf("status of a learner without voters: %w, want %w", err, etcd.ErrLearner)
		}
		return nil
	})
}

// tokenArgs are etcd's arguments for a kind of tokens.
func tokenArgs(t *testing.T, kind string) []string {
	t.Helper()
	if kind == "simple" {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]*pem.Block{
		"private": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
		"public":  {Type: "PUBLIC KEY", Bytes: public},
	}
	for name, block := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--auth-token=jwt,sign-method=RS256,ttl=5m,pub-key=" + filepath.Join(dir, "public") + ",priv-key=" + filepath.Join(dir, "private")}
}

// A password that is encrypted on its way to the learner goes to no voter in
// clear text.
func TestLearnersPasswordStaysEncrypted(t *testing.T) {
	t.Parallel()
	c, _ := start(t, testetcd.Config{Version: testetcd.V36, TLS: true, Args: []string{"--client-cert-auth=false", "--trusted-ca-file="}})
	ctx := within(t, 60*time.Second)
	i, err := c.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enableAuth(ctx, t, c.Client(t, 0))
	anonymous := c.ClientTLS()
	anonymous.Certificates = nil // its name would say who this is
	voter := c.Members[0].ClientURL
	alone, err := etcd.New(etcd.Config{
		Endpoints:  []string{c.Members[i].ClientURL},
		TLS:        anonymous,
		Credential: func(context.Context) (string, string, error) { return "root", "secret", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	authReaches(ctx, t, alone)
	d, err := etcd.New(etcd.Config{
		Endpoints:  []string{c.Members[i].ClientURL},
		TLS:        anonymous,
		Credential: func(context.Context) (string, string, error) { return "root", "secret", nil },
		Voters:     func(context.Context) ([]string, error) { return []string{voter}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heard := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			close(heard)
		}
	}()
	voter = "http://" + listener.Addr().String()
	_, err = d.Status(ctx)
	if err == nil || !strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("status with a voter that does not encrypt: %v", err)
	}
	select {
	case <-heard:
		t.Error("the voter was connected to")
	default:
	}
	voter = c.Members[0].ClientURL
	until(t, 20*time.Second, "status with one that does", func() error {
		s, err := d.Status(ctx)
		if err == nil && !s.Healthy {
			err = errors.New("it is not healthy")
		}
		return err
	})
}
