package history

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	// callDeadline bounds one call of a client.
	callDeadline = 2 * time.Second
	// keyLives is after how many operations a key is left, so that finding an order for it stays cheap.
	keyLives = 150
	// keyDoubts is after how many operations without an answer: each of them doubles what has to be tried.
	keyDoubts = 4
)

// Config says who uses the cluster, and how.
type Config struct {
	// Endpoints are the client URLs of the members. Each client keeps to one of them, in turn.
	Endpoints []string
	TLS       *tls.Config // nil: none
	// Dial connects instead of the usual dialer, when it is given.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Clients is how many read and write; 0: six. Beside them each endpoint has a watcher, and two clients hold leases.
	Clients int
	Seed    uint64
	Keys    int           // that are in use at a time; 0: four
	Pause   time.Duration // of a client between two operations, on average; 0: 20 ms
	Prefix  string        // of all keys; empty: "history/"
}

// Clients are clients that use a cluster and write down what they see.
type Clients struct {
	cfg     Config
	history History // guarded by mu, but for Watches, which are the watchers' until these have ended

	cancel      context.CancelFunc // of clients
	cancelWatch context.CancelFunc // of watchers, which go on until they have seen the last write
	done        sync.WaitGroup
	doneWatch   sync.WaitGroup
	open        []*clientv3.Client
	watchers    []*watcher
	stop        sync.Once

	mu      sync.Mutex // guards what follows
	keys    []*key
	named   int
	values  int
	retired []string // endpoints
}

// key is a key that is in use.
type key struct {
	name   string
	used   int
	doubts int
}

// Start begins to use a cluster, until Stop or the end of the context. It has to serve: the first revision is asked for.
func Start(ctx context.Context, cfg Config) (*Clients, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("start clients: there is no endpoint")
	}
	cfg.Clients, cfg.Keys, cfg.Pause, cfg.Prefix = cmp.Or(cfg.Clients, 6), cmp.Or(cfg.Keys, 4), cmp.Or(cfg.Pause, 20*time.Millisecond), cmp.Or(cfg.Prefix, "history/")
	c := &Clients{cfg: cfg, history: History{Began: time.Now(), Seed: cfg.Seed, Prefix: cfg.Prefix}}
	c.fresh()
	first, err := c.first(ctx)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("start clients: %w", err)
	}
	if err := c.run(ctx, first); err != nil {
		c.cancel()
		c.cancelWatch()
		c.done.Wait()
		c.doneWatch.Wait()
		c.close()
		return nil, fmt.Errorf("start clients: %w", err)
	}
	return c, nil
}

// run starts everybody.
func (c *Clients) run(ctx context.Context, first int64) error {
	ctx, c.cancel = context.WithCancel(ctx)
	watching, cancelWatch := context.WithCancel(context.WithoutCancel(ctx))
	c.cancelWatch = cancelWatch
	for i, endpoint := range c.cfg.Endpoints {
		client, err := c.dial(endpoint)
		if err != nil {
			return err
		}
		w := &watcher{clients: c, client: client, endpoint: endpoint, watch: Watch{Name: fmt.Sprintf("watch %d by %s", i, endpoint), From: first + 1}}
		c.watchers = append(c.watchers, w)
		c.doneWatch.Go(func() { w.run(watching) })
	}
	for i := range c.cfg.Clients + leaseholders {
		client, err := c.dial(c.cfg.Endpoints[i%len(c.cfg.Endpoints)])
		if err != nil {
			return err
		}
		w := &worker{clients: c, client: client, number: i, random: rand.New(rand.NewPCG(c.cfg.Seed, uint64(i))), seen: map[string]int64{}}
		if i < c.cfg.Clients {
			c.done.Go(func() { w.run(ctx) })
		} else {
			c.done.Go(func() { w.holdLeases(ctx) })
		}
	}
	return nil
}

// first is the revision at the start.
func (c *Clients) first(ctx context.Context) (int64, error) {
	client, err := c.dial(c.cfg.Endpoints...)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*callDeadline)
	defer cancel()
	got, err := client.Get(ctx, c.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	if got.Count > 0 {
		return 0, fmt.Errorf("there are %d keys below %s", got.Count, c.cfg.Prefix)
	}
	return got.Header.Revision, nil
}

func (c *Clients) dial(endpoints ...string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, TLS: c.cfg.TLS, DialTimeout: callDeadline, Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second} // a connection that is cut gives no sign
	if c.cfg.Dial != nil {
		config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(c.cfg.Dial)}
	}
	client, err := clientv3.New(config)
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, client)
		c.mu.Unlock()
	}
	return client, err
}

func (c *Clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.open {
		client.Close()
	}
	c.open = nil
}

// now is the time in the history.
func (c *Clients) now() int64 { return int64(time.Since(c.history.Began)) }

// Fault writes down that something was done to the cluster. The function that it returns writes down that it was undone;
// it may be left uncalled for what is over at once.
func (c *Clients) Fault(text string) (healed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.history.Faults)
	c.history.Faults = append(c.history.Faults, Span{From: c.now(), Text: text})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.history.Faults[i].To = c.now()
	}
}

// Reset says that the cluster is about to return to an earlier state. The function that it returns is called once it has,
// with the highest revision that was kept, or Everything. What is under way in between is not held against anybody.
func (c *Clients) Reset() (done func(keep int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.history.Resets)
	c.history.Resets = append(c.history.Resets, Reset{From: c.now(), Keep: Everything})
	c.refresh()
	return func(keep int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.history.Resets[i].To, c.history.Resets[i].Keep = c.now(), keep
		c.refresh()
	}
}

// Retire says that an endpoint goes away for good: its watcher need not see the end.
func (c *Clients) Retire(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = append(c.retired, endpoint)
}

func (c *Clients) isRetired(endpoint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.retired, endpoint)
}

// Counts are how many operations were acknowledged so far, and how many were not.
func (c *Clients) Counts() (acknowledged, unknown int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.history.Operations {
		if o.Error == "" {
			acknowledged++
		} else {
			unknown++
		}
	}
	return acknowledged, unknown
}

// fresh puts new keys in place of all.
func (c *Clients) fresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
}

func (c *Clients) refresh() {
	c.keys = nil
	for range c.cfg.Keys {
		c.keys = append(c.keys, c.newKey())
	}
}

func (c *Clients) newKey() *key {
	c.named++
	return &key{name: fmt.Sprintf("%sk%06d", c.cfg.Prefix, c.named)}
}

// pick takes one of the keys that are in use.
func (c *Clients) pick(random *rand.Rand) *key {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := random.IntN(len(c.keys))
	if k := c.keys[i]; k.used >= keyLives || k.doubts >= keyDoubts {
		c.keys[i] = c.newKey()
	}
	c.keys[i].used++
	return c.keys[i]
}

// value is one that no other operation writes.
func (c *Clients) value(client int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values++
	return fmt.Sprintf("%d by %d", c.values, client)
}

// record takes an operation that has ended.
func (c *Clients) record(o Operation, k *key, err error) {
	o.Return = c.now()
	if err != nil {
		o.Error = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && k != nil && o.writes() {
		k.doubts++
	}
	c.history.Operations = append(c.history.Operations, o)
}

// Check is Check of what was seen. Call Stop before.
func (c *Clients) Check() Report { return Check(c.History()) }

// History is what was seen. Call Stop before.
func (c *Clients) History() History {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history
}
