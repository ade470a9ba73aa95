package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// watch is what the metrics port shows: the report, asked for when somebody
// looks, and counters of what was decided.
type watch struct {
	report   func() console.Report
	registry *prometheus.Registry

	decisions *prometheus.CounterVec
	actions   *prometheus.CounterVec

	mu     sync.Mutex // guards what follows
	number int
	said   []console.Said // the last ones, oldest first
}

// keptDecisions is how many decisions a report shows.
const keptDecisions = 50

func newWatch(report func() console.Report) *watch {
	w := &watch{
		report: report, registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_decisions_total", Help: "Decisions made while leading, by rule."}, []string{"rule"}),
		actions:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_actions_total", Help: "Steps taken while leading, by rule."}, []string{"rule"}),
	}
	w.registry.MustRegister(w.decisions, w.actions, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{w})
	return w
}

// decided is told every decision.
func (w *watch) decided(o *cluster.Observation, d plan.Decision) {
	w.decisions.WithLabelValues(d.Rule).Inc()
	if d.Action != nil {
		w.actions.WithLabelValues(d.Rule).Inc()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.said); n > 0 && sameWords(w.said[n-1].Decision, d) {
		return
	}
	w.number++
	w.said = append(w.said, console.Said{Number: w.number, At: o.At, Decision: d})
	w.said = slices.Clone(w.said[max(0, len(w.said)-keptDecisions):])
}

func sameWords(a, b plan.Decision) bool {
	return a.Rule == b.Rule && a.Reason == b.Reason && a.Action.String() == b.Action.String()
}

// recent are the last decisions, oldest first.
func (w *watch) recent() []console.Said {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// gauges reads the report when metrics are collected.
type gauges struct{ w *watch }

var (
	leadingDesc = prometheus.NewDesc("etcdadm_leading", "1 while this daemon leads.", nil, nil)
	votersDesc  = prometheus.NewDesc("etcdadm_voters", "Voters that the leading daemon sees, by whether they are up.", []string{"up"}, nil)
	wantedDesc  = prometheus.NewDesc("etcdadm_voters_wanted", "Voters that the spec asks for.", nil, nil)
	blockedDesc = prometheus.NewDesc("etcdadm_blocked", "1 for each reason that keeps the cluster from its spec.", []string{"code"}, nil)
	expiryDesc  = prometheus.NewDesc("etcdadm_certificate_not_after_seconds", "When a certificate ends, in seconds since 1970.", []string{"certificate"}, nil)
)

func (g gauges) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leadingDesc, votersDesc, wantedDesc, blockedDesc, expiryDesc} {
		c <- d
	}
}

func (g gauges) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r := g.w.report()
	for _, k := range r.Certificates {
		gauge(expiryDesc, float64(k.NotAfter.Unix()), k.Name)
	}
	if !r.Leading {
		gauge(leadingDesc, 0)
		return
	}
	gauge(leadingDesc, 1)
	if o := r.Observation; o != nil {
		if roster, ok := o.Roster(); ok {
			up := len(roster.Up())
			gauge(votersDesc, float64(up), "true")
			gauge(votersDesc, float64(len(roster.Voters())-up), "false")
		}
		if o.Spec != nil {
			gauge(wantedDesc, float64(o.Spec.MemberCount))
		}
	}
	if r.Decision != nil {
		seen := map[string]bool{}
		for _, b := range r.Decision.Blockers {
			if !seen[b.Code] {
				gauge(blockedDesc, 1, b.Code)
				seen[b.Code] = true
			}
		}
	}
}

// serve answers on the metrics port until ctx ends.
func (w *watch) serve(ctx context.Context, address string, port int, ready func() error) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = rw.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /status", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(rw)
		e.SetIndent("", "  ")
		_ = e.Encode(w.report()) // a reader that went away is no error of ours
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return &Error{Problem: "listen for metrics", Err: err, Advice: "choose another --etcd-manager-metrics-port, or 0 for none"}
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	stopped := context.AfterFunc(ctx, func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := s.Shutdown(stopCtx); err != nil {
			s.Close()
		}
	})
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}
