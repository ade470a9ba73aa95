package reconcile

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectsOf are the items of a list.
func objectsOf(l client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(l, func(o runtime.Object) error { // what is a list has items
		all = append(all, o.(client.Object))
		return nil
	})
	return all
}
