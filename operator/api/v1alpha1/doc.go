// Package v1alpha1 is the operator's API: an EtcdCluster is what is wanted and what is seen of one cluster; an EtcdBackup,
// EtcdBackupSchedule and EtcdRestore are what people ask of it.
//
// What must always hold:
//
//   - A refusal needs no webhook: what can be judged by the object alone is judged by the API server, by the markers here.
//   - No default is written into an object, so that another release of the operator changes nothing that was not asked for.
//     Who reads a field takes its default from the methods here.
//   - The version of etcd has no default at all: a new operator upgrades nobody.
//
// +kubebuilder:object:generate=true
// +groupName=etcdadm.io
package v1alpha1

//go:generate go tool controller-gen object:headerFile=boilerplate.txt paths=. crd:generateEmbeddedObjectMeta=false output:crd:dir=../../config/crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API's group and version.
var GroupVersion = schema.GroupVersion{Group: "etcdadm.io", Version: "v1alpha1"}

// AddToScheme tells a scheme the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EtcdCluster{}, &EtcdClusterList{}, &EtcdBackup{}, &EtcdBackupList{},
		&EtcdBackupSchedule{}, &EtcdBackupScheduleList{}, &EtcdRestore{}, &EtcdRestoreList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
