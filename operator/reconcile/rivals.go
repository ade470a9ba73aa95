package reconcile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rivals looks for another EtcdCluster that has the backup store before this one. Two clusters in one store would do harm for long, so
// that what is not known to be another store counts as the same.
func (r *Reconciler) rivals(ctx context.Context, from client.Reader, s *sight) error {
	all := &v1alpha1.EtcdClusterList{}
	if err := from.List(ctx, all, by{byStore, s.cluster.Spec.Backup.Store}); err != nil {
		return fmt.Errorf("look for clusters with the same store: %w", err)
	}
	mine, began := s.cluster, s.world.Record.There || len(s.world.Hosts) > 0
	for i := range all.Items {
		o := &all.Items[i]
		if o.UID == mine.UID || o.Spec.Backup == nil || o.Spec.Backup.Store != mine.Spec.Backup.Store || !first(o, mine, began) {
			continue
		}
		if !r.otherServer(ctx, o, mine) {
			s.world.StoreOf = o.Namespace + "/" + o.Name
		}
	}
	return nil
}

// first says whether another EtcdCluster has a store before this one: who has made hosts before who may begin, and that one before
// who cannot; of two alike the older one.
func first(o, mine *v1alpha1.EtcdCluster, began bool) bool {
	own := holds(mine)
	if began {
		own = holdsFirmly
	}
	if theirs := holds(o); theirs != own {
		return theirs > own
	}
	return o.CreationTimestamp.Before(&mine.CreationTimestamp) || o.CreationTimestamp.Equal(&mine.CreationTimestamp) && o.UID < mine.UID
}

// How an EtcdCluster holds its store.
const (
	holdsNothing = iota // by the operator's word on its spec as it is now nothing is made of it
	mayHold
	holdsFirmly // hosts were made, or a generation
)

func holds(ec *v1alpha1.EtcdCluster) int {
	if ec.Status.Generation > 0 || ec.Status.NextHost > 1 {
		return holdsFirmly
	}
	c := meta.FindStatusCondition(ec.Status.Conditions, v1alpha1.Ready)
	refused := []decide.Code{decide.SpecRefused, decide.NotSupported, decide.NameTaken, decide.StoreTaken}
	if c != nil && c.ObservedGeneration == ec.Generation && slices.Contains(refused, decide.Code(c.Reason)) {
		return holdsNothing
	}
	return mayHold
}

// servers are the variables of a store's credentials that say at which server, or in which account, a URL means what it says.
var servers = []string{"S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT"}

// otherServer says whether the same URL is known to mean another server for two EtcdClusters.
func (r *Reconciler) otherServer(ctx context.Context, a, b *v1alpha1.EtcdCluster) bool {
	first, known := r.server(ctx, a)
	if !known {
		return false
	}
	second, known := r.server(ctx, b)
	return known && !maps.Equal(first, second)
}

// server is what the credentials of an EtcdCluster's store say of its server; known is false where they cannot be read, or something else
// may say it.
func (r *Reconciler) server(ctx context.Context, ec *v1alpha1.EtcdCluster) (at map[string]string, known bool) {
	for _, name := range servers {
		if p := ec.Spec.Pod; p != nil && bytes.Contains(p.Raw, []byte(name)) {
			return nil, false
		}
	}
	secret := &corev1.Secret{}
	if c := ec.Spec.Backup.Credentials; c != nil && r.Live.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: c.Name}, secret) != nil {
		return nil, false
	}
	of := func(name string) string { return sameServer(string(secret.Data[name])) }
	at = map[string]string{"s3": cmp.Or(of("S3_ENDPOINT"), of("AWS_ENDPOINT_URL_S3"), of("AWS_ENDPOINT_URL")), "azure": of("AZURE_STORAGE_ENDPOINT"), "account": of("AZURE_STORAGE_ACCOUNT")}
	if strings.HasSuffix(at["s3"], ".amazonaws.com") { // as without one
		at["s3"] = ""
	}
	if account, is := strings.CutSuffix(at["azure"], ".blob.core.windows.net"); is {
		at["azure"], at["account"] = "", account
	}
	maps.DeleteFunc(at, func(_, value string) bool { return value == "" })
	return at, true
}

// sameServer is an address without what makes no other server of it.
func sameServer(address string) string {
	a := strings.TrimRight(strings.ToLower(strings.TrimSpace(address)), "/")
	if _, rest, is := strings.Cut(a, "://"); is {
		a = rest
	}
	host, port, _ := strings.Cut(a, ":")
	host = strings.TrimSuffix(strings.TrimSuffix(host, "."), ".cluster.local")
	if port == "" || port == "443" || port == "80" {
		return host
	}
	return host + ":" + port
}
