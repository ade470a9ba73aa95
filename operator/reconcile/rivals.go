package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		other, err := r.otherServer(ctx, o, mine)
		if err != nil {
			return err
		}
		if !other {
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

// servers are the variables of a store's credentials that say, for a URL of a scheme, at which server or in which account it means what
// it says, the first one that is set.
var servers = map[string][]string{
	"s3":        {"S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
	"azureblob": {"AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT"},
}

// elsewhere are words of spec.pod by which a pod may have such variables from somewhere else.
var elsewhere = []string{"envFrom", "_ENDPOINT", "AWS_PROFILE", "AWS_CONFIG_FILE", "AZURE_STORAGE_ACCOUNT"}

// otherServer says whether the same URL is known to mean another server for two EtcdClusters.
func (r *Reconciler) otherServer(ctx context.Context, a, b *v1alpha1.EtcdCluster) (bool, error) {
	first, err := r.server(ctx, a)
	if err != nil || first == "" {
		return false, err
	}
	second, err := r.server(ctx, b)
	return second != "" && first != second, err
}

// server is what the credentials of an EtcdCluster's store say of its server; empty where that is not known: they are not there or may
// not be read, something else may say it, or it is an address of which nobody knows the names.
func (r *Reconciler) server(ctx context.Context, ec *v1alpha1.EtcdCluster) (string, error) {
	for _, word := range elsewhere {
		if p := ec.Spec.Pod; p != nil && bytes.Contains(p.Raw, []byte(word)) {
			return "", nil
		}
	}
	secret := &corev1.Secret{}
	if c := ec.Spec.Backup.Credentials; c != nil {
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: c.Name}, secret)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("look at which server the store of %s/%s is: %w", ec.Namespace, ec.Name, err)
		}
	}
	scheme, _, _ := strings.Cut(ec.Spec.Backup.Store, "://")
	for _, name := range servers[scheme] {
		at := sameServer(string(secret.Data[name]), ec.Namespace)
		switch account, azure := strings.CutSuffix(at, ".blob.core.windows.net"); {
		case at == "":
		case net.ParseIP(at) != nil:
			return "", nil
		case azure, name == "AZURE_STORAGE_ACCOUNT":
			return strings.TrimSuffix(account, "."+ec.Namespace), nil
		case strings.HasSuffix(at, ".amazonaws.com"): // as without one
			return ofTheCloud, nil
		default:
			return at, nil
		}
	}
	return ofTheCloud, nil
}

// ofTheCloud is whose service a URL means where no server is named.
const ofTheCloud = "-"

// sameServer is an address without what makes no other server of it, as pods of a namespace find it.
func sameServer(address, namespace string) string {
	a := strings.TrimRight(strings.ToLower(strings.TrimSpace(address)), "/")
	if _, rest, is := strings.Cut(a, "://"); is {
		a = rest
	}
	host, port, _ := strings.Cut(a, ":")
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(host, "."), ".cluster.local"), ".svc")
	if host != "" && !strings.Contains(host, ".") {
		host += "." + namespace
	}
	if port == "" || port == "443" || port == "80" || net.ParseIP(host) != nil {
		return host
	}
	return host + ":" + port
}
