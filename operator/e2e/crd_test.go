package e2e

import (
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// object reads YAML that a person would write.
func object(t *testing.T, ns, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &o.Object))
	o.SetAPIVersion("etcdadm.io/v1alpha1")
	o.SetNamespace(ns)
	return o
}

func etcdCluster(name, spec string) string {
	return "kind: EtcdCluster\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

const bare = "size: 3, version: 3.7.3, hosts: {store: s3://b/x, credentials: {name: s3}}"

const plain = "size: 3, version: 3.7.3, storage: {size: 8Gi}"

func TestAccepted(t *testing.T) {
	c, ns := server(t)
	for name, text := range map[string]string{
		"small": etcdCluster("small", plain),
		"all": etcdCluster("all", plain+`, replaceAfter: 5m, spareHosts: 0, spread: Required, options: {quota-backend-bytes: "8589934592"},
  recovery: {mode: Automatic, after: 10m}, upgrade: {pauseBeforeLast: false, acceptOutageTo: "", acceptLoss: ""},
  releases: [{version: 3.4.45, image: example/etcd:3.4.45}],
  backup: {store: s3://b/main, credentials: {name: s3}, interval: 15m, drillInterval: 1d, keepLast: 10, recipients: [age1x]},
  tls: {clients: {issuerRef: {name: corp, kind: ClusterIssuer}}, rotate: 0}, network: {policy: true, service: {type: ClusterIP}},
  deletion: {finalBackup: IfStore, volumes: KeepUnproven, protected: false}, hibernate: false, paused: false,
  bootstrap: {restore: {newestProven: true}}, pod: {spec: {priorityClassName: x, containers: [{name: etcdadm, resources: {limits: {memory: 1Gi}}}]}}`),
		"issuer":   etcdCluster("issuer", plain+", tls: {clients: {issuerRef: {name: corp}}}"),
		"another":  etcdCluster("another", plain+", tls: {clients: {issuerRef: {name: pca, kind: PCAIssuer, group: pca.example.org}}}"),
		"hosts":    etcdCluster("edge", "size: 3, version: 3.6.16, hosts: {store: s3://b/edge, credentials: {name: s3}}"),
		"backup":   "kind: EtcdBackup\nmetadata: {name: b}\nspec: {cluster: main, keepFor: 90d}",
		"schedule": "kind: EtcdBackupSchedule\nmetadata: {name: s}\nspec: {cluster: main, schedule: \"0 3 * * *\", timeZone: Europe/Berlin, keepFor: 90d, suspend: false}",
		"restore":  "kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: main, replaces: 4, source: {backup: 2026-11-20T03:00:00Z-000001}, lost: [main-1]}",
		"from":     etcdCluster("from", plain+", backup: {store: \"s3://b/from\"}, bootstrap: {restore: {backup: x, from: {store: \"s3://b/y\", credentials: {name: s3}}}}"),
		"claims":   etcdCluster("claims", plain+", backup: {store: \"s3://b/claims\"}, bootstrap: {claims: [old-1, old-2], acceptFewer: true}"),
		"plain":    etcdCluster("plain", plain+", backup: {store: \"s3://b/plain\"}, bootstrap: {adopt: {}}"),
		"adopt":    etcdCluster("adopt", plain+", backup: {store: \"s3://b/adopt\"}, bootstrap: {adopt: {secret: {name: old-ca}, clusterID: cdf818194e3a8c32}}"),
		"restore2": "kind: EtcdRestore\nmetadata: {name: r3}\nspec: {cluster: main, replaces: 4, source: {backup: x}, from: {store: \"gs://b/y\", credentials: {name: gs}}}",
		"survivor": "kind: EtcdRestore\nmetadata: {name: r2}\nspec: {cluster: main, replaces: 4, clusterID: dbb05294e40a0537, source: {survivor: main-2}}",
	} {
		o := object(t, ns, text)
		if err := c.Create(t.Context(), o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		before, _ := yaml.Marshal(object(t, ns, text).Object["spec"])
		after, _ := yaml.Marshal(o.Object["spec"])
		if string(before) != string(after) {
			t.Errorf("%s: something was written into the object, or taken from it:\n%s\n%s", name, before, after)
		}
	}
}

// What is refused, and the sentence that says why.
func TestRefused(t *testing.T) {
	c, ns := server(t)
	sixty := strings.Repeat("a", 60)
	for name, test := range map[string]struct{ text, says string }{
		"size 2":               {etcdCluster("a", "size: 2, version: 3.7.3, storage: {size: 8Gi}"), "a cluster has 1, 3, 5, 7 or 9 members"},
		"size 11":              {etcdCluster("a", "size: 11, version: 3.7.3, storage: {size: 8Gi}"), "a cluster has 1, 3, 5, 7 or 9 members"},
		"no size":              {etcdCluster("a", "version: 3.7.3, storage: {size: 8Gi}"), "spec.size: Required value"},
		"no version":           {etcdCluster("a", "size: 3, storage: {size: 8Gi}"), "spec.version: Required value"},
		"v3.7.3":               {etcdCluster("a", "size: 3, version: v3.7.3, storage: {size: 8Gi}"), "with all three numbers and without a v"},
		"3.7":                  {etcdCluster("a", "size: 3, version: \"3.7\", storage: {size: 8Gi}"), "with all three numbers and without a v"},
		"a release line":       {etcdCluster("a", plain+", releases: [{version: \"3.4\", image: x}]"), "releases.version is a release of etcd"},
		"no storage":           {etcdCluster("a", "size: 3, version: 3.7.3"), "storage.size is missing"},
		"storage of 1Mi":       {etcdCluster("a", "size: 3, version: 3.7.3, storage: {size: 1Mi}"), "storage.size is less than 100Mi"},
		"a name of 60":         {etcdCluster(sixty, plain), "more than 40 characters"},
		"a name with a dot":    {etcdCluster("a.b", plain), "small letters, digits and dashes"},
		"a digit first":        {etcdCluster("1a", plain), "with a letter first"},
		"hosts and storage":    {etcdCluster("a", plain+", hosts: {store: s3://b/x}"), "hosts names daemons outside of Kubernetes"},
		"hosts and a class":    {etcdCluster("a", bare+", spread: Required"), "where nobody makes or ends hosts for them"},
		"hosts and recovery":   {etcdCluster("a", bare+", recovery: {mode: Manual}"), "a person decides there about recovery and upgrade"},
		"hosts, nobody asks":   {etcdCluster("a", "size: 3, version: 3.7.3, hosts: {store: s3://b/x}"), "hosts.credentials is missing"},
		"hosts and a file":     {etcdCluster("a", "size: 3, version: 3.7.3, hosts: {store: file:///x, credentials: {name: s3}}"), "a bucket that the operator reaches, too"},
		"hosts of hosts":       {etcdCluster("a", "size: 3, version: 3.7.3, hosts: {store: hosts:///x, credentials: {name: s3}}"), "a bucket that the operator reaches, too"},
		"hosts and backup":     {etcdCluster("a", "size: 3, version: 3.7.3, hosts: {store: s3://b/x}, backup: {store: s3://b/y}"), "hosts names daemons outside of Kubernetes"},
		"Automatic, no after":  {etcdCluster("a", plain+", recovery: {mode: Automatic}"), "recovery.after is missing"},
		"after, but Manual":    {etcdCluster("a", plain+", recovery: {after: 5m}"), "goes with mode: Automatic alone"},
		"a time without unit":  {etcdCluster("a", plain+", replaceAfter: \"5\""), "a number with a unit"},
		"a file store":         {etcdCluster("a", plain+", backup: {store: \"file:///x\"}"), "backup.store is a URL such as s3://"},
		"no ID of a cluster":   {"kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: main, replaces: 4, clusterID: main, source: {survivor: main-2}}", "clusterID is status.clusterID of the EtcdCluster"},
		"no public key":        {etcdCluster("a", plain+", backup: {store: \"s3://b/x\", recipients: [AGE-SECRET-KEY-1]}"), "begins with age1"},
		"an issuer, no name":   {etcdCluster("a", plain+`, tls: {clients: {issuerRef: {name: ""}}}`), "issuerRef.name"},
		"an issuer of a kind":  {etcdCluster("a", plain+", tls: {clients: {issuerRef: {name: x, kind: Certificate}}}"), "issuerRef.kind is Issuer or ClusterIssuer"},
		"likewise, a group":    {etcdCluster("a", plain+", tls: {clients: {issuerRef: {name: x, kind: X, group: cert-manager.io}}}"), "issuerRef.kind is Issuer or ClusterIssuer"},
		"a group, no kind":     {etcdCluster("a", plain+", tls: {clients: {issuerRef: {name: x, group: example.org}}}"), "issuerRef.kind is Issuer or ClusterIssuer"},
		"two sources":          {etcdCluster("a", plain+", bootstrap: {restore: {newestProven: true}, claims: [x]}"), "bootstrap has one source"},
		"two restores":         {etcdCluster("a", plain+", bootstrap: {restore: {newestProven: true, backup: x}}"), "bootstrap.restore has one source"},
		"a spread of its own":  {etcdCluster("a", plain+", spread: Maybe"), "Unsupported value"},
		"four spare hosts":     {etcdCluster("a", plain+", spareHosts: 4"), "less than or equal to 3"},
		"no cluster":           {"kind: EtcdBackup\nmetadata: {name: b}\nspec: {}", "spec.cluster"},
		"no source":            {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {}}", "source has one of"},
		"two sources of one":   {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {backup: x, survivor: main-1}}", "source has one of"},
		"a backup's path":      {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {backup: ../x}}", "the name of a backup is as etcdadm backup list prints it"},
		"a path set aside":     {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {setAside: {host: main-1, dir: /x}}}", "and no path"},
		"begin, no store":      {etcdCluster("a", plain+", bootstrap: {restore: {backup: x}}"), "backup.store is missing"},
		"claims, no store":     {etcdCluster("a", plain+", bootstrap: {claims: [x]}"), "backup.store is missing: bootstrap.claims"},
		"adopt, no store":      {etcdCluster("a", plain+", bootstrap: {adopt: {secret: {name: x}}}"), "backup.store is missing: bootstrap.adopt"},
		"adopt, no hex":        {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {adopt: {secret: {name: x}, clusterID: \"0xab\"}}"), "hex without 0x"},
		"adopt and issue":      {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, tls: {clients: {issuerRef: {name: x}}}, bootstrap: {adopt: {secret: {name: x}}}"), "tls.clients cannot be set beside bootstrap.adopt"},
		"adopt and restore":    {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {restore: {backup: x}, adopt: {secret: {name: x}}}"), "bootstrap has one source"},
		"adopt and claims":     {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {claims: [x], adopt: {secret: {name: x}}}"), "bootstrap has one source"},
		"fewer of nothing":     {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {restore: {backup: x}, acceptFewer: true}"), "goes with claims alone"},
		"claims twice":         {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {claims: [x, x]}"), "Duplicate value"},
		"own store":            {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {restore: {backup: x, from: {store: \"s3://b/x\", credentials: {name: s3}}}}"), "names backup.store itself"},
		"from, no name":        {etcdCluster("a", plain+", backup: {store: \"s3://b/x\"}, bootstrap: {restore: {newestProven: true, from: {store: \"s3://b/y\", credentials: {name: s3}}}}"), "from goes with backup"},
		"from, a survivor":     {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {survivor: main-1}, from: {store: \"s3://b/y\", credentials: {name: s3}}}", "from goes with source.backup"},
		"from, nobody asks":    {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {backup: x}, from: {store: \"s3://b/y\"}}", "spec.from.credentials: Required value"},
		"from a file":          {"kind: EtcdRestore\nmetadata: {name: b}\nspec: {cluster: main, source: {backup: x}, from: {store: \"file:///y\", credentials: {name: s3}}}", "from.store is a URL"},
		"a schedule of words":  {"kind: EtcdBackupSchedule\nmetadata: {name: b}\nspec: {cluster: main, schedule: daily}", "schedule has five fields"},
		"a long schedule":      {"kind: EtcdBackupSchedule\nmetadata: {name: " + sixty + sixty + "}\nspec: {cluster: main, schedule: \"0 3 * * *\"}", "more than 100 characters"},
		"a schedule of a year": {"kind: EtcdBackupSchedule\nmetadata: {name: b}\nspec: {cluster: main, schedule: \"0 0 1 1 * 2027\"}", "schedule has five fields"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := refused(t, c.Create(t.Context(), object(t, ns, test.text))); !strings.Contains(said, test.says) {
				t.Errorf("it says %q, want %q", said, test.says)
			}
		})
	}
}

// What is refused of an object that is there.
func TestRefusedLater(t *testing.T) {
	c, ns := server(t)
	for name, test := range map[string]struct{ text, patch, says string }{
		"size 4":             {etcdCluster("size", plain), `{"spec":{"size":4}}`, "a cluster has 1, 3, 5, 7 or 9 members"},
		"hosts moved":        {etcdCluster("moved", bare), `{"spec":{"hosts":{"store":"s3://b/y"}}}`, "hosts.store is that of one cluster"},
		"pods become hosts":  {etcdCluster("become", plain), `{"spec":{"storage":null,"hosts":{"store":"s3://b/y"}}}`, "hosts cannot be added or taken away"},
		"begun later":        {etcdCluster("later", plain+", backup: {store: \"s3://b/later-begun\"}"), `{"spec":{"bootstrap":{"restore":{"backup":"x"}}}}`, "bootstrap cannot be added later"},
		"adopts later":       {etcdCluster("adopts", plain+", backup: {store: \"s3://b/adopts\"}"), `{"spec":{"bootstrap":{"adopt":{"secret":{"name":"x"}}}}}`, "bootstrap cannot be added later"},
		"adopts by another":  {etcdCluster("another", plain+", backup: {store: \"s3://b/another\"}, bootstrap: {adopt: {secret: {name: x}}}"), `{"spec":{"bootstrap":{"adopt":{"secret":{"name":"y"}}}}}`, "bootstrap.adopt.secret cannot be changed later"},
		"adopts with TLS":    {etcdCluster("withtls", plain+", backup: {store: \"s3://b/withtls\"}, bootstrap: {adopt: {}}"), `{"spec":{"bootstrap":{"adopt":{"secret":{"name":"y"}}}}}`, "bootstrap.adopt.secret cannot be changed later"},
		"adopts another":     {etcdCluster("otherid", plain+", backup: {store: \"s3://b/otherid\"}, bootstrap: {adopt: {secret: {name: x}, clusterID: ab}}"), `{"spec":{"bootstrap":{"adopt":{"clusterID":"cd"}}}}`, ""},
		"adopts any":         {etcdCluster("anyid", plain+", backup: {store: \"s3://b/anyid\"}, bootstrap: {adopt: {secret: {name: x}, clusterID: ab}}"), `{"spec":{"bootstrap":{"adopt":{"clusterID":null}}}}`, "clusterID cannot be taken away later"},
		"adopts no more":     {etcdCluster("nomore", plain+", backup: {store: \"s3://b/nomore\"}, bootstrap: {adopt: {secret: {name: x}}}"), `{"spec":{"bootstrap":{"adopt":null,"restore":{"backup":"x"}}}}`, "cannot be exchanged for another source later"},
		"rotated backwards":  {etcdCluster("rotated", plain+", tls: {rotate: 2}"), `{"spec":{"tls":{"rotate":1}}}`, "tls.rotate only grows"},
		"another backup":     {"kind: EtcdBackup\nmetadata: {name: b}\nspec: {cluster: main}", `{"spec":{"cluster":"other"}}`, "never changes"},
		"another restore":    {"kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: main, source: {backup: one}}", `{"spec":{"source":{"backup":"two"}}}`, "never changes"},
		"names it later":     {etcdCluster("named", plain+", backup: {store: \"s3://b/named\"}, bootstrap: {adopt: {secret: {name: x}}}"), `{"spec":{"bootstrap":{"adopt":{"clusterID":"ab"}}}}`, ""},
		"a class by a patch": {etcdCluster("ok", plain), `{"spec":{"storage":{"class":"fast"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, ns, test.text)
			must(t, c.Create(t.Context(), o))
			err := c.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(test.patch)))
			if test.says == "" {
				must(t, err)
				return
			}
			if said := refused(t, err); !strings.Contains(said, test.says) {
				t.Errorf("it says %q, want %q", said, test.says)
			}
		})
	}
}

// kubectl scale: the size goes by the subresource, and an even one is refused there as well.
func TestScale(t *testing.T) {
	c, ns := server(t)
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "main"}}
	must(t, c.Create(t.Context(), object(t, ns, etcdCluster("main", plain))))
	scale := func(n int32) error {
		return c.SubResource("scale").Update(t.Context(), ec, client.WithSubResourceBody(&autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "main"}, Spec: autoscalingv1.ScaleSpec{Replicas: n}}))
	}
	must(t, scale(5))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(ec), ec))
	if ec.Spec.Size != 5 {
		t.Errorf("the size is %d", ec.Spec.Size)
	}
	if said := refused(t, scale(4)); !strings.Contains(said, "a cluster has 1, 3, 5, 7 or 9 members") {
		t.Errorf("it says %q", said)
	}
}
