// Package chart holds the tests of the operator's Helm chart: Helm's own engine and kustomize's render the same objects.
//
// It is a module of its own, since Helm brings half of Kubernetes' clients along.
package chart
