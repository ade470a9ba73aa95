package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var (
	fleetSize = flag.Int("fleet", 0, "clusters of TestFleet; 0: it is not run")
	fleetTime = flag.Duration("fleet.quiet", 5*time.Minute, "how long TestFleet looks at clusters in which nothing happens")
)

// What the operator may take for 2,000 quiet clusters, and by how much a sick one may delay another.
const (
	mostCores   = 0.2
	mostMemory  = 300 << 20
	mostWrites  = 5.0 // in a second
	mostDelayed = time.Second
)

const (
	// How often real daemons write.
	beatEvery, backupEvery, recordEvery = 5 * time.Minute, 15 * time.Minute, time.Minute
	// sampleEvery spreads what is looked for over half a minute: as long as what hangs does.
	sampleEvery = 300 * time.Millisecond
	// makers is how many clusters are being made at once.
	makers = 16
)

// fleet is many clusters in one namespace, an operator, and a hand for each cluster that writes what daemons tell.
type fleet struct {
	*rig
	ns       string
	files    authority.Files // of all: nobody shows them to anybody
	operator *program
	hands    []*teller
	mu       sync.Mutex // of what they tell
}

// teller is the hand of a cluster, and what its daemons tell beside what a hand does.
type teller struct {
	*hand
	backup cluster.Backup
	rule   string
	leader cluster.HostID
}

// TestFleet measures the operator with many clusters; docs/benchmarks.md has the figures.
func TestFleet(t *testing.T) {
	if *fleetSize == 0 {
		t.Skip("a measure: -fleet=2000")
	}
	f := &fleet{rig: newRig(t), ns: "fleet"}
	var err error
	f.files, err = authority.Create(time.Now())
	must(t, err)
	began := time.Now()
	f.makes(f.ns, "c", *fleetSize)
	t.Logf("%d clusters are there after %s", *fleetSize, time.Since(began).Round(time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() { f.beats(ctx) })
	defer beats.Wait()
	defer cancel()
	f.starts()
	f.quiet("quiet")
	beats.Go(func() { f.records(ctx) })
	f.quiet("written to")
	changes, requests := f.changes(100), f.requests(100)
	f.sickens()
	f.compare("a change of its status", changes, f.changes(100))
	f.compare("a request", requests, f.requests(100))
	t.Logf("%d calls of the operator were not answered", f.hung.Load())
	if f.hung.Load() == 0 {
		t.Error("nothing was sick")
	}
}

// starts has an operator begin, and waits until it has shown all clusters.
func (f *fleet) starts() {
	t, from, began := f.t, f.logged(), time.Now()
	t.Helper()
	f.operator = f.rig.starts()
	within(t, 10*time.Minute, "all are ready", func(ctx context.Context) error {
		all := &v1alpha1.EtcdClusterList{}
		if err := f.c.List(ctx, all, client.InNamespace(f.ns)); err != nil {
			return err
		}
		waits := map[string]int{}
		for _, ec := range all.Items {
			if c := meta.FindStatusCondition(ec.Status.Conditions, v1alpha1.Ready); c == nil {
				waits["nothing"]++
			} else if c.Status != metav1.ConditionTrue {
				waits[c.Reason]++
			}
		}
		if len(waits) > 0 {
			time.Sleep(time.Second) // a look at all takes a while
			return fmt.Errorf("they show %s", words(waits))
		}
		return nil
	})
	asked := f.asked(from)
	t.Logf("an operator that begins shows all after %s, %s, and asked: %s", time.Since(began).Round(time.Second), f.operator.usage(), words(asked))
	wrote := written(asked)
	maps.DeleteFunc(wrote, func(what string, _ int) bool {
		return strings.HasSuffix(what, "/status") || strings.HasSuffix(what, "/events") || strings.HasSuffix(what, "/leases")
	})
	if len(wrote) > 0 {
		t.Errorf("it found the clusters other than as it makes them, and wrote: %s", words(wrote))
	}
}

// makes makes clusters, and waits until all are ready.
func (f *fleet) makes(ns, name string, n int) {
	f.t.Helper()
	must(f.t, f.c.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	ctx, cancel := context.WithTimeout(f.t.Context(), 40*time.Minute)
	defer cancel()
	todo, failed := make(chan *teller), make(chan error, makers)
	for range makers {
		go func() {
			var err error
			for h := range todo {
				if err == nil {
					err = f.make(ctx, h)
				}
			}
			failed <- err
		}()
	}
	for i := range n {
		h := &teller{hand: &hand{t: f.t, c: f.c, ns: ns, name: name + strconv.Itoa(i+1), silent: map[string]bool{}}, backup: cluster.Backup{Name: "b0", At: time.Now().UTC()}, rule: "steady"}
		h.tells = func(s *control.Status) {
			backup := h.backup
			s.Backup, s.Rule, s.Leader = &backup, h.rule, cmp.Or(h.leader, s.Leader)
		}
		if ns == f.ns {
			f.hands = append(f.hands, h)
		}
		todo <- h
		if (i+1)%100 == 0 {
			f.t.Logf("%d are being made", i+1)
		}
	}
	close(todo)
	for range makers {
		must(f.t, <-failed)
	}
}

// make makes one cluster as the operator would, by its own shapes, so that an operator that begins finds nothing to do but to show
// its status.
func (f *fleet) make(ctx context.Context, h *teller) error {
	ec := &v1alpha1.EtcdCluster{}
	text := etcdCluster(h.name, "size: 3, version: 3.6.16, storage: {size: 1Gi}, backup: {store: \"s3://b/"+h.ns+"/"+h.name+"\"}")
	if err := yaml.UnmarshalStrict([]byte(text), ec); err != nil {
		return err
	}
	ec.Namespace, ec.Finalizers = h.ns, []string{shape.Finalizer}
	if err := f.c.Create(ctx, ec); err != nil {
		return err
	}
	c, w := shape.Cluster{Namespace: h.ns, Name: h.name, UID: string(ec.UID), Spec: ec.Spec, Image: "localhost/etcdadm:1"}, act.Writer{Client: f.c, Live: f.c}
	version, err := cluster.ParseVersion(ec.Spec.Version)
	if err != nil {
		return err
	}
	records := c.Records()
	view := record.Of(records[0], records[1])
	err = view.Folder(c.ClusterName()).WriteSpec(ctx, cluster.Spec{
		MemberCount: 3, EtcdVersion: version, DeadAfter: beatEvery, Options: map[string]string{"peer-skip-client-san-verification": "true"},
		Hosts: []cluster.HostID{cluster.HostID(c.Host(1)), cluster.HostID(c.Host(2)), cluster.HostID(c.Host(3))},
	})
	view.Control.Annotations = map[string]string{shape.AnnotationNext: "4"}
	err = errors.Join(err, w.Create(ctx, c, view.Control), w.Create(ctx, c, view.Status))
	self := string(view.Control.UID)
	keys, kerr := f.keys(c)
	if kerr != nil {
		return kerr
	}
	err = errors.Join(err, w.Mark(ctx, view.Control, nil, map[string]*string{shape.AnnotationSelf: &self}), w.Create(ctx, c, keys))
	bundle := c.Bundle(authority.Bundle(f.files))
	bundle.Annotations = map[string]string{shape.AnnotationStep: firstStep}
	for _, o := range append(c.Shared(), bundle, c.Budget(2)) {
		err = errors.Join(err, w.Ensure(ctx, c, o, nil))
	}
	for n := 1; n <= 3; n++ {
		files, due, ierr := authority.Issue(f.files, nil, authority.Host{Cluster: c.ClusterName(), Name: c.Host(n), DNS: []string{c.HostDNS(n)}, Served: c.ServedDNS()}, time.Now())
		leaves := c.Leaves(n, files)
		leaves.Annotations = map[string]string{shape.AnnotationRenew: due.UTC().Format(time.RFC3339), shape.AnnotationStep: firstStep}
		set, serr := c.Set(n)
		err = errors.Join(err, ierr, serr, w.Create(ctx, c, c.Claim(n)), w.Create(ctx, c, leaves), w.Create(ctx, c, set))
	}
	for err == nil {
		if err = h.turn(ctx); apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the cache lags
			err = nil
		}
		m := &corev1.ConfigMap{}
		if f.c.Get(ctx, h.key(c.StatusName()), m) == nil && strings.Count(m.Data["control__etcdadm-status.json"], `"up":true`) == 3 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w", h.name, ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("make %s: %w", h.name, err)
}

// firstStep is what the operator writes on what is of the first authorities.
const firstStep = "0 1"

// keys is the Secret with the authorities' keys, as the operator describes it.
func (f *fleet) keys(c shape.Cluster) (*corev1.Secret, error) {
	is, err := authority.Describe(f.files)
	if err != nil {
		return nil, err
	}
	said, err := json.Marshal(struct {
		Step  int                   `json:"step"`
		Phase cluster.RotationPhase `json:"phase"`
		authority.Certificates
	}{1, cluster.RotateDone, is})
	out := c.Authorities(f.files)
	out.Annotations = map[string]string{shape.AnnotationAuthorities: string(said)}
	return out, err
}

// beats has each cluster's daemons tell of themselves as often as they do where nothing happens, and of their backups.
func (f *fleet) beats(ctx context.Context) {
	tick := time.NewTicker(beatEvery / time.Duration(len(f.hands)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := i % len(f.hands)
		h, round := f.hands[n], i/len(f.hands)
		if (round+n)%int(backupEvery/beatEvery) != 0 {
			f.tell(ctx, h, func() {})
			continue
		}
		f.tell(ctx, h, func() { h.rule = "backup" })
		f.tell(ctx, h, func() {
			h.rule, h.backup = "steady", cluster.Backup{Name: fmt.Sprintf("b%d", round+1), At: time.Now().UTC()}
		})
	}
}

// records has each cluster's daemons write the record of its progress as often as they do where clients write.
func (f *fleet) records(ctx context.Context) {
	tick := time.NewTicker(recordEvery / time.Duration(len(f.hands)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h, m := f.hands[i%len(f.hands)], &corev1.ConfigMap{}
		f.mu.Lock()
		err := f.c.Get(ctx, h.key(h.name+"-status"), m)
		if err == nil {
			m.Data["control__etcdadm-record.json"] = fmt.Sprintf(`{"revision":%d}`, i)
			err = f.c.Update(ctx, m)
		}
		f.mu.Unlock()
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			f.t.Errorf("the record of %s: %v", h.name, err)
		}
	}
}

// tell has a cluster's daemons write their status, which something has changed.
func (f *fleet) tell(ctx context.Context, h *teller, change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	if err := h.daemons(ctx, []string{h.name + "-1", h.name + "-2", h.name + "-3"}); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
		f.t.Errorf("the daemons of %s: %v", h.name, err)
	}
}

// used is what a process has taken.
type used struct {
	cpu                time.Duration
	memory, heap, peak int64 // bytes: resident, of that anonymous, and the most that was resident
	at                 time.Time
}

func (u used) String() string {
	return fmt.Sprintf("took %s of processors and has %d MiB (anonymous %d, at most %d)", u.cpu.Round(time.Second), u.memory>>20, u.heap>>20, u.peak>>20)
}

func (p *program) usage() used {
	p.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	must(p.t, err)
	words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	u := used{cpu: time.Duration(user+system) * 10 * time.Millisecond, at: time.Now()}
	status, err := os.ReadFile(proc + "status")
	must(p.t, err)
	for line := range strings.Lines(string(status)) {
		for name, into := range map[string]*int64{"VmRSS:": &u.memory, "RssAnon:": &u.heap, "VmHWM:": &u.peak} {
			if rest, is := strings.CutPrefix(line, name); is {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				*into = n << 10
			}
		}
	}
	return u
}

// logged is how long the log of what operators asked for is by now.
func (g *rig) logged() int64 {
	is, err := os.Stat(g.server.Audit)
	must(g.t, err)
	return is.Size()
}

// quiet measures the operator while nothing happens but that daemons tell of themselves and take their backups.
func (f *fleet) quiet(when string) {
	t := f.t
	t.Helper()
	<-time.After(time.Minute) // what was begun ends
	before, from, looks := f.operator.usage(), f.logged(), f.operator.looks(t.Context())
	<-time.After(*fleetTime) // the measure itself
	after, asked := f.operator.usage(), f.asked(from)
	took := after.at.Sub(before.at)
	cores := (after.cpu - before.cpu).Seconds() / took.Seconds()
	writes := 0
	for _, n := range written(asked) {
		writes += n
	}
	second := float64(writes) / took.Seconds()
	more := f.operator.looks(t.Context())
	for loop := range more {
		more[loop] -= looks[loop]
	}
	t.Logf("%d clusters, %s, for %s: %.3f of a core, %d MiB resident (anonymous %d, at most %d), %.2f writes/s\nasked: %s\nlooks: %s",
		len(f.hands), when, took.Round(time.Second), cores, after.memory>>20, after.heap>>20, after.peak>>20, second, words(asked), words(more))
	if cores > mostCores || after.memory > mostMemory || second > mostWrites {
		t.Errorf("more than %.1f of a core, %d MiB or %.0f writes/s", mostCores, mostMemory>>20, mostWrites)
	}
}

// written is what was written of what was asked.
func written(asked map[string]int) map[string]int {
	out := maps.Clone(asked)
	maps.DeleteFunc(out, func(what string, _ int) bool {
		verb, _, _ := strings.Cut(what, " ")
		return !slices.Contains([]string{"create", "update", "patch", "delete"}, verb)
	})
	return out
}

// words are counts, the most first.
func words(counts map[string]int) string {
	var out []string
	for _, what := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] }) {
		if counts[what] > 0 {
			out = append(out, fmt.Sprintf("%s %d", what, counts[what]))
		}
	}
	return strings.Join(out, ", ")
}

// changes is how long it takes until changes that daemons tell are shown, one after the other.
func (f *fleet) changes(n int) (took []time.Duration) {
	for range n {
		took = append(took, f.change(f.hands[rand.IntN(len(f.hands))]))
		<-time.After(sampleEvery)
	}
	return took
}

func (f *fleet) change(h *teller) time.Duration {
	f.t.Helper()
	leader := h.name + "-2"
	if string(h.leader) == leader {
		leader = h.name + "-3"
	}
	var began time.Time
	tries := 0
	within(f.t, 5*time.Minute, h.name, func(ctx context.Context) error {
		m, ec := &corev1.ConfigMap{}, &v1alpha1.EtcdCluster{}
		err := errors.Join(f.c.Get(ctx, h.key(h.name+"-status"), m), f.c.Get(ctx, h.key(h.name), ec))
		if told := strings.Contains(fmt.Sprint(m.Data), fmt.Sprintf("%q", leader)+`,"at"`); !told && tries%50 == 0 { // what a lagging cache had is refused
			f.tell(ctx, h, func() { h.leader = cluster.HostID(leader) })
			began = time.Now()
		}
		if tries++; ec.Status.Leader != leader {
			err = errors.Join(err, fmt.Errorf("it shows %s", ec.Status.Leader))
		}
		return err
	})
	return time.Since(began)
}

// requests is how long it takes until an EtcdBackup says anything.
func (f *fleet) requests(n int) (took []time.Duration) {
	f.t.Helper()
	for range n {
		h := f.hands[rand.IntN(len(f.hands))]
		o := object(f.t, h.ns, "kind: EtcdBackup\nmetadata: {generateName: "+h.name+"-}\nspec: {cluster: "+h.name+"}")
		must(f.t, f.c.Create(f.t.Context(), o))
		began := time.Now()
		within(f.t, 5*time.Minute, o.GetName(), func(ctx context.Context) error {
			b := &v1alpha1.EtcdBackup{}
			if err := f.c.Get(ctx, h.key(o.GetName()), b); err != nil || b.Status.Phase == "" {
				return errors.Join(err, errors.New("it says nothing"))
			}
			return nil
		})
		took = append(took, time.Since(began))
		<-time.After(sampleEvery)
	}
	return took
}

// compare says how much later something is shown beside a sick cluster.
func (f *fleet) compare(what string, before, beside []time.Duration) {
	f.t.Helper()
	slices.Sort(before)
	slices.Sort(beside)
	at := func(of []time.Duration, part float64) time.Duration {
		return of[int(float64(len(of)-1)*part)].Round(time.Millisecond)
	}
	f.t.Logf("%s is shown after (median, 99 %%, longest): %s, %s, %s; beside sick clusters %s, %s, %s", what,
		at(before, 0.5), at(before, 0.99), at(before, 1), at(beside, 0.5), at(beside, 0.99), at(beside, 1))
	if later := at(beside, 1) - at(before, 1); later > mostDelayed {
		f.t.Errorf("%s: %s later", what, later)
	}
}

// sickens has one cluster in pods whose API calls hang, and one on bare hosts whose store does; much is asked of both.
func (f *fleet) sickens() {
	t, ctx := f.t, f.t.Context()
	f.makes("sick", "sick", 1)
	silence, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { silence.Close() })
	go func() {
		for {
			if _, err := silence.Accept(); err != nil { // nobody is answered
				return
			}
		}
	}()
	must(t, f.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}))
	secret := &corev1.Secret{StringData: map[string]string{"S3_ENDPOINT": "http://" + silence.Addr().String(), "S3_ACCESS_KEY_ID": "k", "S3_SECRET_ACCESS_KEY": "s", "S3_REGION": "r"}}
	secret.Namespace, secret.Name = "bare", "s3"
	must(t, f.c.Create(ctx, secret))
	must(t, f.c.Create(ctx, object(t, "bare", etcdCluster("sick", bare))))
	ns := "sick"
	f.sick.Store(&ns)
	for _, ns := range []string{"sick", "bare"} {
		for range 40 {
			must(t, f.c.Create(ctx, object(t, ns, "kind: EtcdBackup\nmetadata: {generateName: b-}\nspec: {cluster: sick"+map[string]string{"sick": "1"}[ns]+"}")))
		}
	}
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "sick", Name: "sick1"}}
	must(t, f.c.Patch(ctx, ec, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"size":5}}`))))
	within(t, time.Minute, "something hangs", func(context.Context) error {
		if f.hung.Load() == 0 {
			return errors.New("nothing does")
		}
		return nil
	})
}
