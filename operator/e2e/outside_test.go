package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testenv"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/reconcile"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// site is where bare hosts are: real daemons at addresses of loopback, and a real store.
type site struct {
	*hand
	store   *teststore.Server
	url     string
	program string
	loop    *reconcile.Outside
	hosts   map[string]*exec.Cmd
}

func outside(t *testing.T, name string) *site {
	t.Helper()
	_, ns := server(t)
	s := &site{hand: &hand{t: t, c: watching(t), ns: ns, name: name, silent: map[string]bool{}}, store: teststore.Start(t, teststore.Versitygw), hosts: map[string]*exec.Cmd{}}
	s.url = "s3://" + teststore.Bucket + "/" + name
	r, _ := operator(s.c, -1, nil)
	s.loop = &reconcile.Outside{Reconciler: r}
	return s
}

// variables are those of the store.
func (s *site) variables() map[string]string {
	return map[string]string{"S3_ENDPOINT": s.store.URL, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey, "S3_REGION": teststore.Region}
}

// secret has these variables, one of them another.
func (s *site) secret(name, key, value string) *corev1.Secret {
	m := &corev1.Secret{StringData: s.variables()}
	m.Namespace, m.Name = s.ns, name
	m.StringData[key] = value
	return m
}

// bare is an EtcdCluster of this store.
func (s *site) bare(name, spec string) client.Object {
	return object(s.t, s.ns, etcdCluster(name, spec+", hosts: {store: \""+s.url+"\", credentials: {name: s3}}"))
}

// folder is the record as a person reaches it.
func (s *site) folder() *control.Folder {
	store, err := open.Open(s.t.Context(), s.url, open.Options{Given: s.variables()})
	must(s.t, err)
	return control.New(store, "edge")
}

// spec is what is wanted of the daemons.
func (s *site) spec() cluster.Spec {
	read, err := s.folder().ReadSpec(s.t.Context())
	must(s.t, err)
	if read.Spec == nil {
		return cluster.Spec{}
	}
	return *read.Spec
}

// look is one turn of the loop for the EtcdCluster of a name.
func (s *site) look(ctx context.Context) error {
	_, err := s.loop.Reconcile(ctx, ctrl.Request{NamespacedName: s.key(s.name)})
	return err
}

// shows waits until the EtcdCluster's condition Ready has a reason.
func (s *site) shows(limit time.Duration, reason, says string) {
	s.t.Helper()
	within(s.t, limit, reason, func(ctx context.Context) error {
		if err := s.look(ctx); err != nil {
			return err
		}
		if c := s.condition(v1alpha1.Ready); c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("%s: %s; %+v", c.Reason, c.Message, s.see().Status.Blockers)
		}
		return nil
	})
}

// serves waits until all is as is wanted.
func (s *site) serves(members int32, version string) {
	s.t.Helper()
	s.shows(3*time.Minute, "Ready", "")
	if is := s.see().Status; is.Voters != members || is.Up == nil || *is.Up != members || is.Version != version || is.Generation != 1 || is.ClusterID == "" || is.Leader == "" {
		s.t.Errorf("%+v", is)
	}
	for _, kind := range []string{v1alpha1.Available, v1alpha1.Reporting} {
		if c := s.condition(kind); c.Status != "True" {
			s.t.Errorf("%+v", c)
		}
	}
}

// starts runs the daemon of a host until the test ends.
func (s *site) starts(n int) {
	t := s.t
	t.Helper()
	dir, name := t.TempDir(), fmt.Sprintf("bare-%d", n)
	if s.program == "" {
		s.program = filepath.Join(dir, "etcdadm")
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", s.program, "./cmd/etcdadm")
		build.Dir, build.Env = "../..", append(testenv.Outside(), "CGO_ENABLED=0", "GOWORK=off")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	releases, err := testetcd.CacheDir()
	must(t, err)
	at := fmt.Sprintf("127.81.%d.%d", os.Getpid()%250, n)
	cmd := exec.Command(s.program, "auto", s.url, "--insecure", "--etcd-insecure", "--cluster-name=edge", "--host-id="+name, "--address="+at, "--etcd-address="+at, "--data-dir="+filepath.Join(dir, "data"),
		"--client-urls=http://"+at+":2379", "--quarantine-client-urls=http://"+at+":2381", "--peer-urls=http://"+at+":2380", "--release-dir="+releases, "--backup-interval=0")
	for key, value := range s.variables() {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	log.Close()
	s.hosts[name] = cmd
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it may end by the signal
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopWithin):
			t.Errorf("%s does not end", name)
			_ = cmd.Process.Kill()
		}
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s:\n%s", name, said[max(0, len(said)-4000):])
		}
	})
}

// A cluster on bare hosts: its spec comes from Kubernetes, and its status goes there. Credentials that are wrong, a store that
// hangs, a person's hold and another EtcdCluster's mark are shown; the end of the EtcdCluster leaves the hosts running.
func TestBareHosts(t *testing.T) {
	s := outside(t, "edge")
	wrong := s.secret("s3", "S3_SECRET_ACCESS_KEY", "wrong-secret-of-somebody")
	must(t, s.c.Create(t.Context(), wrong))
	must(t, s.c.Create(t.Context(), s.bare("edge", "size: 1, version: "+testetcd.V36)))
	s.shows(time.Minute, string(decide.StoreUnreached), "403")
	if c := s.condition(v1alpha1.Reporting); c.Status != "Unknown" || c.LastTransitionTime.IsZero() || strings.Contains(fmt.Sprint(s.see().Status), "wrong-secret") {
		t.Errorf("%+v", s.see().Status)
	}
	if !s.spec().Equal(cluster.Spec{}) {
		t.Error("something was written")
	}
	must(t, s.c.Update(t.Context(), s.secret("s3", "S3_REGION", teststore.Region)))
	s.shows(time.Minute, string(decide.NoDaemons), "start the daemons")
	s.starts(1)
	s.serves(1, testetcd.V36)

	s.starts(2)
	s.starts(3)
	s.patch(`{"spec":{"size":3,"options":{"max-request-bytes":"2000000"}}}`)
	s.serves(3, testetcd.V36)
	if is := s.see().Status; len(is.Hosts) != 3 || is.Hosts[0].Name != "bare-1" || is.Hosts[0].Role != "voter" || !is.Hosts[0].Up {
		t.Errorf("%+v", is.Hosts)
	}
	s.plugin()
	s.patch(`{"spec":{"version":"` + testetcd.V37 + `","options":null}}`)
	s.serves(3, testetcd.V37)
	if is := s.spec(); len(is.Options) > 0 {
		t.Errorf("%+v", is)
	}

	must(t, s.folder().Settings().Hold(t.Context(), true))
	s.patch(`{"spec":{"size":5}}`)
	s.shows(time.Minute, string(decide.Held), "spec.size 5 is not written")
	if is := s.spec(); is.MemberCount != 3 || !is.Hold {
		t.Errorf("%+v", is)
	}
	s.patch(`{"spec":{"size":3}}`)
	must(t, s.folder().Settings().Hold(t.Context(), false))
	s.serves(3, testetcd.V37)

	// Too few hosts are named by a person: nothing is written over that.
	must(t, s.folder().Settings().Name(t.Context(), []cluster.HostID{"bare-1", "bare-2"}))
	s.shows(time.Minute, string(decide.SpecRefused), "3 members on 2 named hosts")
	must(t, s.folder().Settings().Name(t.Context(), nil))
	s.serves(3, testetcd.V37)

	s.requests()
	s.hangs()
	s.owners()
}

// By the operator as its program runs it, with caches, its own workers and no more rights than its manifests give: a store is
// seeded, and let go.
func TestBareHostsByTheProgram(t *testing.T) {
	store, g := teststore.Start(t, teststore.Versitygw), newRig(t)
	s := &site{hand: &hand{t: t, c: g.c, ns: "team", name: "program", silent: map[string]bool{}}, store: store, url: "s3://" + teststore.Bucket + "/program"}
	must(t, s.c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	g.starts()
	must(t, s.c.Create(t.Context(), s.secret("s3", "S3_REGION", teststore.Region)))
	must(t, s.c.Create(t.Context(), s.bare("program", "size: 3, version: "+testetcd.V36)))
	within(t, time.Minute, "the store is seeded", func(context.Context) error {
		if c := s.condition(v1alpha1.Ready); c.Reason != string(decide.NoDaemons) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if is := s.spec(); is.MemberCount != 3 || is.EtcdVersion.String() != testetcd.V36 {
		t.Errorf("%+v", is)
	}
	must(t, s.c.Delete(t.Context(), s.see()))
	within(t, time.Minute, "the end", func(context.Context) error { return s.gone() })
	if is, err := s.folder().ReadOwner(t.Context()); is != nil || err != nil || s.spec().MemberCount != 3 {
		t.Errorf("%v, %v", is, err)
	}
	g.asked(0)
}

// plugin shows what the operator shows, and refuses what only a pod can do.
func (s *site) plugin() {
	t := s.t
	code, out, errs := kubectlEtcdadm(t, s.ns, "", "status", "edge")
	if code != 0 || errs != "" {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	says(t, out, "EtcdCluster "+s.ns+"/edge: ready\n", "HOST    MEMBER", "  voter  up\n", "etcd "+testetcd.V36+", generation 1\n")
	if code, out, _ := kubectlEtcdadm(t, s.ns, "", "plan", "edge"); code != 0 || !strings.Contains(out, "nothing is on its way") {
		t.Errorf("it ends with %d: %s", code, out)
	}
	for _, command := range []string{"logs edge", "defrag edge", "promote edge bare-1"} {
		code, _, errs := kubectlEtcdadm(t, s.ns, "", strings.Fields(command)...)
		if code != 12 {
			t.Errorf("%s ends with %d", command, code)
		}
		says(t, errs, "is on hosts outside of Kubernetes", "run etcdadm on one of its hosts")
	}
}

// requests are those for a cluster on bare hosts: they go through the queue in the store.
func (s *site) requests() {
	t := s.t
	for _, q := range []struct {
		loop *reconcile.Requests
		text string
		is   func() v1alpha1.RequestStatus
	}{
		{s.loop.Backups(), "kind: EtcdBackup\nmetadata: {name: b}\nspec: {cluster: edge, keepFor: 2d}", func() v1alpha1.RequestStatus { return s.backup("b").Status }},
		{s.loop.Restores(), "kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: edge, replaces: 1, source: {backup: BACKUP}}", func() v1alpha1.RequestStatus {
			r := &v1alpha1.EtcdRestore{}
			must(t, s.c.Get(t.Context(), s.key("r"), r))
			return r.Status
		}},
	} {
		backup := ""
		if strings.Contains(q.text, "BACKUP") {
			backup = s.lastBackup()
		}
		o := object(t, s.ns, strings.ReplaceAll(q.text, "BACKUP", backup))
		must(t, s.c.Create(t.Context(), o))
		within(t, 3*time.Minute, o.GetKind()+" is done", func(ctx context.Context) error {
			_, err := q.loop.Reconcile(ctx, ctrl.Request{NamespacedName: s.key(o.GetName())})
			if is := q.is(); err != nil || is.Phase != v1alpha1.Done || is.Backup == "" {
				return errors.Join(err, fmt.Errorf("it is %+v", is))
			}
			return nil
		})
	}
	s.shows(2*time.Minute, "Ready", "")
	if is := s.see().Status; is.Generation != 2 || is.LastBackup == nil || s.condition(v1alpha1.BackedUp).Status != "True" {
		t.Errorf("%+v", is)
	}
}

// lastBackup waits until the newest one is shown.
func (s *site) lastBackup() (name string) {
	within(s.t, time.Minute, "the backup is shown", func(ctx context.Context) error {
		if err := s.look(ctx); err != nil {
			return err
		}
		b := s.see().Status.LastBackup
		if b == nil {
			return errors.New("none is")
		}
		name = b.Name
		return nil
	})
	return name
}

// hangs has the store answer nothing for a while.
func (s *site) hangs() {
	t := s.t
	must(t, s.store.Hang())
	began := time.Now()
	s.shows(time.Minute, string(decide.StoreUnreached), "did not answer in time")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a look took %s", took)
	}
	if is := s.see().Status; is.Up != nil || is.Voters != 3 || is.Hosts[0].Up || s.condition(v1alpha1.Available).Status != "Unknown" {
		t.Errorf("%+v", is)
	}
	must(t, s.c.Create(t.Context(), object(t, s.ns, "kind: EtcdBackup\nmetadata: {name: waits}\nspec: {cluster: edge}")))
	began = time.Now()
	_, err := s.loop.Backups().Reconcile(t.Context(), ctrl.Request{NamespacedName: s.key("waits")})
	must(t, err)
	if is := s.backup("waits").Status; time.Since(began) > 5*time.Second || is.Phase != v1alpha1.Queued || !strings.Contains(is.Reason, "did not answer in time") {
		t.Errorf("after %s: %+v", time.Since(began), is)
	}
	if code, out, _ := kubectlEtcdadm(t, s.ns, "", "status", "edge"); code != 11 || !strings.Contains(out, "StoreUnreached") {
		t.Errorf("it ends with %d: %s", code, out)
	}
	must(t, s.store.Resume())
	must(t, s.c.Delete(t.Context(), s.backup("waits")))
	s.shows(time.Minute, "Ready", "")
	later := time.Now().Add(decide.Fresh + time.Minute)
	s.loop.Now = func() time.Time { return later }
	s.shows(time.Minute, "Silent", "nobody has told lately")
	s.loop.Now = nil
	s.shows(time.Minute, "Ready", "")
}

// owners are EtcdClusters that come after another one.
func (s *site) owners() {
	t, ctx := s.t, s.t.Context()
	before, spec := s.see(), s.spec()
	must(t, s.c.Create(ctx, s.bare("second", "size: 1, version: "+testetcd.V37)))
	s.name = "second"
	s.shows(time.Minute, string(decide.StoreTaken), "belongs to EtcdCluster "+s.ns+"/edge with UID "+string(before.UID))
	s.name = "edge"
	must(t, s.c.Delete(ctx, before))
	within(t, time.Minute, "the end", func(ctx context.Context) error {
		if err := s.look(ctx); err != nil {
			return err
		}
		return s.gone()
	})
	if is, err := s.folder().ReadOwner(ctx); is != nil || err != nil || !s.spec().Equal(spec) {
		t.Errorf("%v, %v, %+v", is, err, s.spec())
	}
	for name, cmd := range s.hosts {
		if cmd.ProcessState != nil {
			t.Errorf("%s ended", name)
		}
	}
	// A cluster that nobody looks after does not become another one unasked.
	s.name = "second"
	s.shows(time.Minute, string(decide.StoreFree), "1 member in place of 3")
	if is, err := s.folder().ReadOwner(ctx); is != nil || err != nil || !s.spec().Equal(spec) {
		t.Errorf("%v, %v, %+v", is, err, s.spec())
	}
	// One whose end nobody saw is followed by who a person says.
	dead := &control.Owner{Namespace: "n", Name: "dead", UID: "d-e-a-d", Kubernetes: "k"}
	must(t, s.folder().WriteOwner(ctx, nil, dead))
	s.patch(`{"spec":{"size":3}}`)
	s.shows(time.Minute, string(decide.StoreTaken), "EtcdCluster n/dead")
	if b := s.see().Status.Blockers[0]; !strings.HasSuffix(b.Command, "etcdcluster second etcdadm.io/take-over=d-e-a-d") {
		t.Errorf("%+v", b)
	}
	s.takesOver("d-e-a-d")
	// An older state of itself writes nothing.
	later, err := s.folder().ReadOwner(ctx)
	must(t, err)
	is := *later
	is.Generation += 5
	must(t, s.folder().WriteOwner(ctx, later, &is))
	s.patch(`{"spec":{"size":1}}`)
	s.shows(time.Minute, string(decide.StoreTaken), "as after a restore")
	if !s.spec().Equal(spec) {
		t.Errorf("%+v", s.spec())
	}
	s.patch(`{"spec":{"size":3}}`)
	s.takesOver(is.UID)
}

// takesOver is a person's word, which counts once.
func (s *site) takesOver(word string) {
	s.t.Helper()
	s.patch(`{"metadata":{"annotations":{"etcdadm.io/take-over":"` + word + `"}}}`)
	s.shows(time.Minute, "Ready", "")
	within(s.t, time.Minute, "the word is used up", func(ctx context.Context) error {
		if left := s.see().Annotations["etcdadm.io/take-over"]; left != "" {
			return errors.Join(s.look(ctx), fmt.Errorf("it is %s", left))
		}
		return nil
	})
}

// A store that hangs in the middle of a look at a request is the request's reason, and one that is slow has it asked for all
// the same. Of all that is asked of one cluster one look at a time waits for its store.
func TestSlowStore(t *testing.T) {
	s := outside(t, "slow")
	proxy := teststore.NewProxy(t, s.store)
	s.store.URL = proxy.URL
	must(t, s.c.Create(t.Context(), s.secret("s3", "S3_REGION", teststore.Region)))
	must(t, s.c.Create(t.Context(), s.bare("slow", "size: 1, version: "+testetcd.V36)))
	s.shows(time.Minute, string(decide.NoDaemons), "start the daemons")
	must(t, s.c.Create(t.Context(), object(t, s.ns, "kind: EtcdBackup\nmetadata: {name: b}\nspec: {cluster: slow}")))
	backups := s.loop.Backups()
	look := func() (ctrl.Result, error) {
		return backups.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.key("b")})
	}
	asked := make(chan struct{}, 1)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if !strings.Contains(r.URL.Path, "etcdadm-commands-ended") {
			return teststore.Pass
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return teststore.Hang
	})
	ended := make(chan error, 1)
	go func() {
		_, err := look()
		ended <- err
	}()
	<-asked
	if result, err := look(); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("a second look at the same cluster: %+v, %v", result, err)
	}
	must(t, <-ended)
	if is := s.backup("b").Status; is.Phase != v1alpha1.Queued || !strings.Contains(is.Reason, "did not answer in time") {
		t.Errorf("%+v", is)
	}

	proxy.Inject(nil)
	version, err := cluster.ParseVersion(testetcd.V36)
	must(t, err)
	_, err = s.folder().CreateIntent(t.Context(), &cluster.Intent{Timestamp: 1, Name: "edge", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 0xabc, Voters: []cluster.Voter{{Host: "bare-1", Disk: "d", Member: 1}}})
	must(t, err)
	must(t, s.folder().WriteStatus(t.Context(), control.Status{Cluster: "edge", Leader: "bare-1", At: time.Now(), Version: version, Hosts: []control.HostStatus{{Host: "bare-1", Data: cluster.DataMember}}, Members: []control.MemberStatus{{Host: "bare-1", Member: 1, Up: true, Version: version}}}))
	s.shows(time.Minute, "Ready", "")
	proxy.Inject(func(*http.Request) teststore.Fault {
		time.Sleep(900 * time.Millisecond) // of each request
		return teststore.Pass
	})
	_, err = look()
	must(t, err)
	if is := s.backup("b").Status; is.Phase != v1alpha1.Queued || is.Command == "" {
		t.Errorf("%+v", is)
	}
	proxy.Inject(nil)
	if all, err := s.folder().Commands(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
