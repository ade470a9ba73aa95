package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// watch is what the metrics port shows: the report, asked for when somebody
// looks, and counters of what was decided.
type watch struct {
	report   func() console.Report
	starting func() string // what the start waits for; until it is empty nothing else can be asked
	registry *prometheus.Registry
	ours     prometheus.Registerer // registry, with the cluster's name on everything
	program  Program

	decisions *prometheus.CounterVec
	actions   *prometheus.CounterVec
	backups   *prometheus.CounterVec
	drills    *prometheus.CounterVec
	restores  prometheus.Counter

	mu     sync.Mutex // guards what follows
	number int
	said   []console.Said // the last ones, oldest first
}

// keptDecisions is how many decisions a report shows.
const keptDecisions = 50

// newWatch has every metric of the daemon under the cluster's name.
func newWatch(name string, program Program, report func() console.Report, starting func() string) *watch {
	w := &watch{
		report: report, starting: starting, registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_decisions_total", Help: "Decisions made while leading, by rule."}, []string{"rule"}),
		actions:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_actions_total", Help: "Steps taken while leading, by rule."}, []string{"rule"}),
		backups:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_backups_total", Help: "Backups that this daemon tried to take, by result."}, []string{"result"}),
		drills:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcdadm_backup_drills_total", Help: "Backups that this daemon tried out, by result."}, []string{"result"}),
		restores:  prometheus.NewCounter(prometheus.CounterOpts{Name: "etcdadm_restores_total", Help: "New generations that this host began from a backup, a survivor or data that was set aside."}),
	}
	for _, result := range []string{resultOK, resultFailed} { // so that a rate of the first one is seen
		w.backups.WithLabelValues(result)
		w.drills.WithLabelValues(result)
	}
	w.program = program
	w.ours = prometheus.WrapRegistererWith(prometheus.Labels{"cluster": strings.ToValidUTF8(name, "?")}, w.registry)
	w.ours.MustRegister(w.decisions, w.actions, w.backups, w.drills, w.restores, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{w})
	return w
}

// countDropped has the lines counted that this daemon's log lost, since nothing else may tell of
// them; nil: it loses none.
func (w *watch) countDropped(dropped func() uint64) {
	if dropped == nil {
		dropped = func() uint64 { return 0 }
	}
	w.ours.MustRegister(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "etcdadm_log_lines_dropped_total", Help: "Lines of this daemon's log that were dropped, because what takes it did not keep up."},
		func() float64 { return float64(dropped()) }))
}

// Results of what is counted.
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

func resultOf(err error) string {
	if err != nil {
		return resultFailed
	}
	return resultOK
}

// counted counts how each of something came out.
func counted(by *prometheus.CounterVec) func(error) {
	return func(err error) { by.WithLabelValues(resultOf(err)).Inc() }
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
	return a.Rule == b.Rule && a.Reason.String() == b.Reason.String() && a.Action.String() == b.Action.String()
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
	buildDesc      = prometheus.NewDesc("etcdadm_build_info", "1, with the release of this daemon and that of the etcd it carries.", []string{"version", "etcd"}, nil)
	memberDesc     = prometheus.NewDesc("etcdadm_member_up", "1 for each member that the leading daemon counts as up, 0 for the others.", []string{"host", "member", "learner"}, nil)
	startingDesc   = prometheus.NewDesc("etcdadm_starting", "1 while this daemon starts; no other metric is set then.", nil, nil)
	leadingDesc    = prometheus.NewDesc("etcdadm_leading", "1 while this daemon leads.", nil, nil)
	votersDesc     = prometheus.NewDesc("etcdadm_voters", "Voters that the leading daemon sees, by whether they are up.", []string{"up"}, nil)
	wantedDesc     = prometheus.NewDesc("etcdadm_voters_wanted", "Voters that the spec asks for.", nil, nil)
	blockedDesc    = prometheus.NewDesc("etcdadm_blocked", "1 for each reason that keeps the cluster from its spec.", []string{"code"}, nil)
	generationDesc = prometheus.NewDesc("etcdadm_generation", "The cluster's generation; 1 is its founding.", nil, nil)
	quarantineDesc = prometheus.NewDesc("etcdadm_quarantined", "1 while a new generation does not serve ordinary clients yet.", nil, nil)
	queueDesc      = prometheus.NewDesc("etcdadm_commands_queued", "Commands in the store's queue.", nil, nil)
	lastBackupDesc = prometheus.NewDesc("etcdadm_backup_last_success_timestamp_seconds", "Start of the newest backup in the store, in seconds since 1970; 0: no backup.", nil, nil)
	ageDesc        = prometheus.NewDesc("etcdadm_backup_age_seconds", "How old the newest backup in the store is.", nil, nil)
	sizeDesc       = prometheus.NewDesc("etcdadm_backup_size_bytes", "Size of the newest backup's snapshot, before it was packed.", nil, nil)
	tookDesc       = prometheus.NewDesc("etcdadm_backup_duration_seconds", "How long the newest backup took.", nil, nil)
	provenDesc     = prometheus.NewDesc("etcdadm_backup_proven_timestamp_seconds", "When the newest backup began that was verified; 0: none of the newest few was.", nil, nil)
	drillDesc      = prometheus.NewDesc("etcdadm_backup_drill_age_seconds", "How long ago a backup was last tried out.", nil, nil)
	drillOKDesc    = prometheus.NewDesc("etcdadm_backup_drill_ok", "1 if the last drill found the backup good, 0 if not.", nil, nil)
	pausedDesc     = prometheus.NewDesc("etcdadm_host_paused_until_timestamp_seconds", "When the pause of a host ends, in seconds since 1970; missing for one that is not paused.", []string{"host"}, nil)
	managedDesc    = prometheus.NewDesc("etcdadm_self_managed", "1 while the daemons look after the cluster by themselves, 0 while that is off or not known.", nil, nil)
	asideDesc      = prometheus.NewDesc("etcdadm_set_aside_bytes", "Size of the data directories that a host has set aside.", []string{"host"}, nil)

	fileDesc     = prometheus.NewDesc("etcdadm_database_file_bytes", "Size of a member's database file.", []string{"host"}, nil)
	inUseDesc    = prometheus.NewDesc("etcdadm_database_in_use_bytes", "What of a member's database file is in use.", []string{"host"}, nil)
	quotaDesc    = prometheus.NewDesc("etcdadm_database_quota_bytes", "How large a member's database file may become.", []string{"host"}, nil)
	alarmsDesc   = prometheus.NewDesc("etcdadm_alarms", "How many members an alarm of etcd is about.", []string{"kind"}, nil)
	comparedDesc = prometheus.NewDesc("etcdadm_keys_compared_timestamp_seconds", "When the voters' keys were compared last, in seconds since 1970; 0: not since this daemon leads.", nil, nil)

	expiryDesc = prometheus.NewDesc("etcdadm_certificate_not_after_timestamp_seconds", "When a certificate ends, in seconds since 1970.", []string{"certificate"}, nil)
)

func (g gauges) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{startingDesc, leadingDesc, votersDesc, wantedDesc, blockedDesc, expiryDesc, generationDesc, quarantineDesc, queueDesc,
		lastBackupDesc, ageDesc, sizeDesc, tookDesc, provenDesc, drillDesc, drillOKDesc, asideDesc, pausedDesc, managedDesc, buildDesc, memberDesc, fileDesc, inUseDesc, quotaDesc, alarmsDesc, comparedDesc} {
		c <- d
	}
}

func (g gauges) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	carried := ""
	if b := g.w.program.Builtin; b != nil {
		carried = b.Version
	}
	gauge(buildDesc, 1, g.w.program.Build, carried)
	starts := g.w.starting() != ""
	if gauge(startingDesc, truth(starts)); starts {
		return
	}
	r := g.w.report()
	for _, k := range r.Certificates {
		gauge(expiryDesc, float64(k.NotAfter.Unix()), k.Name)
	}
	if gauge(leadingDesc, truth(r.Leading)); !r.Leading {
		return
	}
	if o := r.Observation; o != nil {
		if roster, ok := o.Roster(); ok {
			up := len(roster.Up())
			gauge(votersDesc, float64(up), "true")
			gauge(votersDesc, float64(len(roster.Voters())-up), "false")
			for i := range roster.Seats {
				s := &roster.Seats[i]
				gauge(memberDesc, truth(s.Up), string(s.HostID), s.ID.String(), strconv.FormatBool(s.Learner))
			}
		}
		if spec := o.Wanted(); spec != nil {
			gauge(wantedDesc, float64(spec.MemberCount))
		}
		collectData(gauge, o, r.Backups)
		collectUpkeep(gauge, o)
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

// truth is how a gauge says yes and no.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// collectData tells of backups, generations, and what lies beside them.
func collectData(gauge func(*prometheus.Desc, float64, ...string), o *cluster.Observation, b *console.Backups) {
	if in := o.Intent(); in != nil {
		gauge(generationDesc, float64(in.Generation))
		gauge(quarantineDesc, truth(in.Quarantined))
	}
	gauge(queueDesc, float64(len(o.Commands)))
	for i := range o.Hosts {
		bytes := int64(0)
		for _, a := range o.Hosts[i].SetAside {
			bytes += a.Bytes
		}
		gauge(asideDesc, float64(bytes), string(o.Hosts[i].Host))
	}
	gauge(managedDesc, truth(o.SelfManaged()))
	for _, p := range o.Pauses() {
		gauge(pausedDesc, float64(p.Until.Unix()), string(p.Host))
	}
	if b == nil {
		return
	}
	stamp := func(d *prometheus.Desc, of *cluster.Backup) {
		if of == nil {
			gauge(d, 0)
			return
		}
		gauge(d, float64(of.At.Unix()))
	}
	stamp(lastBackupDesc, b.Last)
	stamp(provenDesc, b.Proven)
	if b.Last != nil {
		gauge(ageDesc, time.Since(b.Last.At).Seconds())
		gauge(sizeDesc, float64(b.Last.Bytes))
	}
	if b.Took > 0 {
		gauge(tookDesc, b.Took.Seconds())
	}
	if !b.Drilled.IsZero() {
		gauge(drillDesc, time.Since(b.Drilled).Seconds())
		gauge(drillOKDesc, truth(b.DrillFailed == ""))
	}
}

// collectUpkeep tells of etcd's own ills.
func collectUpkeep(gauge func(*prometheus.Desc, float64, ...string), o *cluster.Observation) {
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if st := h.Status; st != nil && st.DBSize > 0 {
			gauge(fileDesc, float64(st.DBSize), string(h.Host))
			gauge(inUseDesc, float64(st.DBInUse), string(h.Host))
			if room := st.Capacity(); room > 0 {
				gauge(quotaDesc, float64(room), string(h.Host))
			}
		}
	}
	if roster, ok := o.Roster(); ok {
		for _, kind := range []string{cluster.AlarmNoSpace, cluster.AlarmCorrupt} {
			gauge(alarmsDesc, float64(len(roster.Alarms(kind))), kind)
		}
	}
	at := 0.0
	if last := o.Memory.Upkeep.ComparedAt; !last.IsZero() {
		at = float64(last.Unix())
	}
	gauge(comparedDesc, at)
}

// Connections to the metrics port: who scrapes keeps one or two.
const (
	maxScrapers   = 128
	maxScrapersOf = 16 // of these from one address
)

// partMetrics is the part of a daemon that answers on the metrics port.
const partMetrics = "metrics"

// serve answers on the metrics port until ctx ends. While the daemon starts it is alive,
// and says what it waits for: its end would not bring a disk back.
func (w *watch) serve(ctx context.Context, log *slog.Logger, l net.Listener, ready func() error, voter func(context.Context) error) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		if words := w.starting(); words != "" {
			_, _ = rw.Write([]byte("ok, " + words + "\n"))
			return
		}
		_, _ = rw.Write([]byte("ok\n"))
	})
	for path, ask := range map[string]func(context.Context) error{"/readyz": func(context.Context) error { return ready() }, "/voterz": voter} {
		mux.HandleFunc("GET "+path, w.started(func(rw http.ResponseWriter, r *http.Request) {
			if err := ask(r.Context()); err != nil {
				http.Error(rw, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = rw.Write([]byte("ok\n"))
		}))
	}
	mux.HandleFunc("GET /status", w.started(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_ = duration.WriteJSON(rw, w.report()) // a reader that went away is no error of ours
	}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: metricsHeader, ReadTimeout: metricsRead, WriteTimeout: metricsWrite, MaxHeaderBytes: 16 << 10}
	l = peer.Bound(l, log, maxScrapers, maxScrapersOf)
	stopped := context.AfterFunc(ctx, func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsEnd)
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

// started is what asks parts of the daemon, which are there once it has started.
func (w *watch) started(answer http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if words := w.starting(); words != "" {
			http.Error(rw, words, http.StatusServiceUnavailable)
			return
		}
		answer(rw, r)
	}
}
