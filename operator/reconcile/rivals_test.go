package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept are EtcdClusters and Secrets that are there.
type kept struct {
	client.Client
	clusters []v1alpha1.EtcdCluster
	secrets  map[string]map[string]string // by namespace
	broken   error
}

func (k kept) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	l.(*v1alpha1.EtcdClusterList).Items = k.clusters
	return nil
}

func (k kept) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	data, is := k.secrets[key.Namespace]
	switch {
	case k.broken != nil:
		return k.broken
	case !is:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	secret := o.(*corev1.Secret)
	secret.Data = map[string][]byte{}
	for name, value := range data {
		secret.Data[name] = []byte(value)
	}
	return nil
}

// Of two EtcdClusters with one store the first has it: who has hosts, then who may begin, then the older one. Another server or
// account is another store where that is known, and only there.
func TestRivals(t *testing.T) {
	born := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	is := func(namespace string, age time.Duration, change func(*v1alpha1.EtcdCluster)) v1alpha1.EtcdCluster {
		ec := v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main", UID: types.UID(namespace), Generation: 2, CreationTimestamp: metav1.NewTime(born.Add(-age))}}
		ec.Spec.Backup = &v1alpha1.BackupPolicy{Store: "s3://b/main", Credentials: &v1alpha1.SecretName{Name: "s3"}}
		if change != nil {
			change(&ec)
		}
		return ec
	}
	ran := func(ec *v1alpha1.EtcdCluster) { ec.Status.NextHost = 4 }
	shows := func(code decide.Code, of int64) func(ec *v1alpha1.EtcdCluster) {
		return func(ec *v1alpha1.EtcdCluster) {
			ec.Status.NextHost = 1
			ec.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Ready, Reason: string(code), ObservedGeneration: of}}
		}
	}
	azure := func(more func(*v1alpha1.EtcdCluster)) func(*v1alpha1.EtcdCluster) {
		return func(ec *v1alpha1.EtcdCluster) {
			if ec.Spec.Backup.Store = "azureblob://b/main"; more != nil {
				more(ec)
			}
		}
	}
	at := func(endpoint string) map[string]string { return map[string]string{"S3_ENDPOINT": endpoint} }
	for what, c := range map[string]struct {
		other, mine  func(*v1alpha1.EtcdCluster)
		younger      bool // the other one
		began        bool // this one
		theirs, ours map[string]string
		want         bool // the other one has it
	}{
		"it is older":                            {nil, nil, false, false, at("a.example.com"), at("a.example.com"), true},
		"it is younger":                          {nil, nil, true, false, at("a.example.com"), at("a.example.com"), false},
		"it is younger, and has hosts":           {ran, nil, true, false, at("a.example.com"), at("a.example.com"), true},
		"both have":                              {ran, ran, true, false, at("a.example.com"), at("a.example.com"), false},
		"it is older and has none, and this has": {nil, nil, false, true, at("a.example.com"), at("a.example.com"), false},
		"it is older and cannot begin":           {shows(decide.SpecRefused, 2), nil, false, false, at("a.example.com"), at("a.example.com"), false},
		"it could not, by a former spec":         {shows(decide.SpecRefused, 1), nil, false, false, at("a.example.com"), at("a.example.com"), true},
		"it is older and waits for machines":     {shows(decide.Pending, 2), nil, false, false, at("a.example.com"), at("a.example.com"), true},
		"at another server":                      {ran, nil, false, false, at("http://minio.a:9000"), at("http://minio.b:9000"), false},
		"the same server, otherwise written":     {ran, nil, false, false, at("https://S3.example.com/"), at("s3.example.com:443"), true},
		"Amazon's, named and not":                {ran, nil, false, false, at("https://s3.eu-west-1.amazonaws.com"), map[string]string{}, true},
		"another account of another cloud":       {ran, nil, false, false, map[string]string{"AZURE_STORAGE_ACCOUNT": "a"}, map[string]string{"AZURE_STORAGE_ACCOUNT": "b"}, true},
		"another account":                        {azure(ran), azure(nil), false, false, map[string]string{"AZURE_STORAGE_ACCOUNT": "a"}, map[string]string{"AZURE_STORAGE_ACCOUNT": "b"}, false},
		"the same account, by its address":       {azure(ran), azure(nil), false, false, map[string]string{"AZURE_STORAGE_ACCOUNT": "a"}, map[string]string{"AZURE_STORAGE_ENDPOINT": "https://a.blob.core.windows.net"}, true},
		"the same server, by shorter names":      {ran, nil, false, false, at("http://minio.theirs.svc.cluster.local:9000"), at("http://minio.theirs:9000"), true},
		"the same name in two namespaces":        {ran, nil, false, false, at("http://minio:9000"), at("http://minio:9000"), false},
		"an address":                             {ran, nil, false, false, at("http://10.0.0.7:9000"), at("http://minio.b:9000"), true},
		"other keys alone":                       {ran, nil, false, false, map[string]string{"S3_ACCESS_KEY_ID": "a"}, map[string]string{"S3_ACCESS_KEY_ID": "b"}, true},
		"its Secret is not there":                {ran, nil, false, false, nil, at("a.example.com"), true},
		"its pods may have another server": {func(ec *v1alpha1.EtcdCluster) {
			ran(ec)
			ec.Spec.Pod = &runtime.RawExtension{Raw: []byte(`{"x":"S3_ENDPOINT"}`)}
		}, nil, false, false, at("a.example.com"), at("b.example.com"), true},
		"it has another store": {func(ec *v1alpha1.EtcdCluster) { ec.Spec.Backup.Store = "s3://b/other" }, nil, false, false, at("a.example.com"), at("a.example.com"), false},
	} {
		age := time.Hour
		if c.younger {
			age = -time.Hour
		}
		mine := is("mine", 0, c.mine)
		k := kept{clusters: []v1alpha1.EtcdCluster{mine, is("theirs", age, c.other)}, secrets: map[string]map[string]string{"mine": c.ours}}
		if c.theirs != nil {
			k.secrets["theirs"] = c.theirs
		}
		s := &sight{cluster: &mine}
		s.world.Record.There = c.began
		r := &Reconciler{Live: k}
		if err := r.rivals(t.Context(), k, s); err != nil || (s.world.StoreOf == "theirs/main") != c.want {
			t.Errorf("%s: %q, %v", what, s.world.StoreOf, err)
		}
		for broken, silent := range map[error]bool{errors.New("no answer"): false, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s3", nil): true} {
			k.broken = broken
			again := &sight{cluster: &mine}
			again.world.Record.There = c.began
			err := (&Reconciler{Live: k}).rivals(t.Context(), k, again)
			switch {
			case silent && err != nil, c.want && silent && again.world.StoreOf == "", c.want && !silent && err == nil && c.theirs != nil && k.secrets != nil && what != "its pods may have another server":
				t.Errorf("%s, and nobody knows at which server they are (%v): %q, %v", what, broken, again.world.StoreOf, err)
			case what == "at another server" && silent && again.world.StoreOf == "":
				t.Error("another server counts although nobody may look")
			}
		}
	}
}
