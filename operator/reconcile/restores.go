package reconcile

import (
	"context"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/request"
	"etcdadm.io/operator/shape"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Restores is the loop for EtcdRestores.
func (r *Reconciler) Restores() *Requests {
	return &Requests{Reconciler: r, kind: requestKind{
		object: func() client.Object { return &v1alpha1.EtcdRestore{} },
		list:   func() client.ObjectList { return &v1alpha1.EtcdRestoreList{} },
		read: func(o client.Object) asked {
			e := o.(*v1alpha1.EtcdRestore)
			return asked{
				cluster: e.Spec.Cluster, status: &e.Status, lasts: cluster.ConsentLasts, copies: copyFor(e),
				hinders: func(s *sight, heard record.Heard) *request.Hindrance {
					_, h := request.Restore(&s.world, &e.Spec, heard.First)
					return h
				},
				add: func(ctx context.Context, s *sight, f *control.Folder, command string) error {
					c, _ := request.Restore(&s.world, &e.Spec, "") // nothing hinders what is asked for
					by, since := "EtcdRestore "+e.Name, e.CreationTimestamp.Time
					if c.Kind == cluster.CommandRestore {
						return f.AddRestoreOnce(ctx, command, since, control.RestoreBackup{Backup: c.Backup, Lost: c.Lost, By: by})
					}
					return f.AddWishOnce(ctx, command, since, control.Wish{Kind: c.Kind, Host: c.Host, Dir: c.Dir, Lost: c.Lost, Seen: c.Seen, By: by})
				},
			}
		},
	}}
}

// copyFor is the copy that comes before a restore; nil: none does. The Job goes with the EtcdRestore.
func copyFor(e *v1alpha1.EtcdRestore) *copying {
	if e.Spec.From == nil {
		return nil
	}
	return &copying{field: "spec.from", Copy: shape.Copy{
		Backup: string(e.Spec.Source.Backup), From: e.Spec.From,
		Owner: &metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EtcdRestore", Name: e.Name, UID: e.UID},
	}}
}
