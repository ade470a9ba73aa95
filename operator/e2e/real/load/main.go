// Command load uses a cluster from a pod beside it, as an application does, until it is told to stop; then it holds what it saw
// against what etcd promises.
//
//	load --endpoint https://main-client.ns.svc:2379 --ca /ca/etcd-clients-ca.crt --certs /certs
//
//	GET /stats   how many writes were acknowledged, retried and failed so far
//	GET /stop    ends it, and answers with the stats and with what etcd broke, if it did
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"etcdadm.io/internal/history"
	"etcdadm.io/internal/regular"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// tryFor bounds a write. One that failed is sent again after retryAfter, once.
	tryFor     = 5 * time.Second
	retryAfter = time.Second
	// between two writes of the writer that counts.
	between = 100 * time.Millisecond
	// verifyFor bounds the read of all that was written.
	verifyFor = time.Minute
)

// Stats are what the writer saw.
type Stats struct {
	Written int `json:"written"` // acknowledged, at the first or the second try
	Retried int `json:"retried"` // at the second
	Failed  int `json:"failed"`  // at neither
	// LongestStall is the longest time without an acknowledged write.
	LongestStall time.Duration `json:"longestStall"`
	Last         string        `json:"last,omitempty"` // error
	Lost         int           `json:"lost"`           // acknowledged writes that were not there in the end
	Checked      string        `json:"checked,omitempty"`
	Broken       string        `json:"broken,omitempty"`
}

func main() {
	endpoint := flag.String("endpoint", "", "client URL of the cluster")
	ca := flag.String("ca", "", "file with whom to trust; it is read at each connection")
	certs := flag.String("certs", "", "directory with client.crt and client.key; they are read at each connection")
	seed := flag.Uint64("seed", 1, "of what the clients do")
	prefix := flag.String("prefix", "", "of all keys")
	flag.Parse()
	if err := run(*endpoint, config(*ca, *certs), *seed, *prefix); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// config verifies by the files as they are at each handshake, so that a rotation needs no restart.
func config(ca, certs string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection does what it leaves out, by the file
		VerifyConnection: func(s tls.ConnectionState) error {
			data, err := regular.Read(ca, regular.SmallSize)
			if err != nil {
				return err
			}
			roots, others := x509.NewCertPool(), x509.NewCertPool()
			roots.AppendCertsFromPEM(data)
			for _, c := range s.PeerCertificates[1:] {
				others.AddCert(c)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, DNSName: s.ServerName})
			return err
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := regular.Read(filepath.Join(certs, "client.crt"), regular.SmallSize)
			if err != nil {
				return nil, err
			}
			key, err := regular.Read(filepath.Join(certs, "client.key"), regular.SmallSize)
			if err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(cert, key)
			return &pair, err
		},
	}
}

func run(endpoint string, secure *tls.Config, seed uint64, prefix string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: secure, DialTimeout: tryFor, Logger: zap.NewNop(),
		DialKeepAliveTime: 3 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	clients, err := history.Start(ctx, history.Config{Endpoints: []string{endpoint}, TLS: secure, Seed: seed, Prefix: prefix + "history/", Clients: 3, Pause: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	w := &writer{client: client, prefix: prefix + "load/", acknowledged: time.Now()}
	writing, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { w.write(writing) })
	ended := make(chan struct{})
	http.HandleFunc("GET /stats", func(out http.ResponseWriter, _ *http.Request) { answer(out, w.seen()) })
	http.HandleFunc("GET /stop", func(out http.ResponseWriter, r *http.Request) {
		stop()
		done.Wait()
		clients.Stop()
		w.verify(r.Context())
		report := clients.Check()
		w.mu.Lock()
		w.stats.Checked = report.String()
		if err := report.Err(); err != nil {
			w.stats.Broken = err.Error()
		}
		w.mu.Unlock()
		answer(out, w.seen())
		close(ended)
	})
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: tryFor}
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		_ = server.Shutdown(context.WithoutCancel(ctx)) // the answer is written
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(out http.ResponseWriter, s Stats) { _ = json.NewEncoder(out).Encode(s) } // who asked is told, or is gone

// writer writes one key after the other, as an application that sends a write a second time does.
type writer struct {
	client *clientv3.Client
	prefix string // of its keys

	mu           sync.Mutex // guards what follows
	stats        Stats
	acknowledged time.Time
	keys         []string // that were acknowledged
}

func (w *writer) write(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s%07d", w.prefix, n)
		err := w.put(ctx, key)
		retried := err != nil
		if retried && ctx.Err() == nil {
			wait(ctx, retryAfter)
			err = w.put(ctx, key)
		}
		w.note(ctx, key, retried, err)
		wait(ctx, between)
	}
}

// wait is over after that time, or with the context.
func wait(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}

func (w *writer) put(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	_, err := w.client.Put(ctx, key, key)
	return err
}

func (w *writer) note(ctx context.Context, key string, retried bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.stats.Written++
		if retried {
			w.stats.Retried++
		}
		w.stats.LongestStall = max(w.stats.LongestStall, time.Since(w.acknowledged))
		w.acknowledged, w.keys = time.Now(), append(w.keys, key)
	case ctx.Err() == nil: // else the stop cut it off
		w.stats.Failed++
		w.stats.Last = fmt.Sprintf("%s: %v", time.Now().UTC().Format(time.TimeOnly), err)
	}
}

// verify counts the acknowledged writes that are gone.
func (w *writer) verify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, verifyFor)
	defer cancel()
	got, err := w.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.stats.Broken = "read what was written: " + err.Error()
		return
	}
	there := map[string]bool{}
	for _, kv := range got.Kvs {
		there[string(kv.Key)] = true
	}
	for _, key := range w.keys {
		if !there[key] {
			w.stats.Lost++
		}
	}
}

func (w *writer) seen() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}
