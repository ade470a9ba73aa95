// Package e2e runs the operator against a real API server. A hand plays what else Kubernetes has: it makes the pods of
// StatefulSets, and ends them. The daemons' words are written into the control store as they write them, or by real ones.
package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/testkube"
	"etcdadm.io/operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"
)

// startDeadline bounds the start of etcd and the API server, and the acceptance of the CRDs.
const startDeadline = 4 * time.Minute

// kube is the API server that the package's tests share.
var kube struct {
	sync.Once
	config *rest.Config
	client client.Client
	server *testkube.Server
	ca     string // file with the authority of its certificate
	why    string // it is not there
	end    []func()
}

var scheme = runtime.NewScheme()

var must, within = testkube.Must, testkube.Within

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	code := m.Run()
	for i := len(kube.end) - 1; i >= 0; i-- {
		kube.end[i]()
	}
	os.Exit(code)
}

// server gives a test the API server, with the operator's CRDs in it, and a namespace of its own.
func server(t *testing.T) (client.Client, string) {
	t.Helper()
	if testkube.Built(testkube.APIServer) == "" {
		t.Skipf("no %s %s on this machine: go run ./internal/testkube/cmd/fetch", testkube.APIServer, testkube.Version)
	}
	kube.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
		defer cancel()
		if err := begin(ctx); err != nil {
			kube.why = err.Error()
		}
	})
	if kube.why != "" {
		t.Fatal(kube.why)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + "-"}}
	if len(ns.GenerateName) > 30 {
		ns.GenerateName = ns.GenerateName[:29] + "-"
	}
	if err := kube.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return kube.client, ns.Name
}

func begin(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "operator-e2e-")
	if err != nil {
		return err
	}
	kube.end = append(kube.end, func() { os.RemoveAll(dir) })
	etcd, err := testetcd.StartIn(ctx, filepath.Join(dir, "etcd"), testetcd.Config{Version: testetcd.V36, Members: 1})
	if etcd != nil {
		kube.end = append(kube.end, func() { etcd.Close() })
	}
	if err != nil {
		return err
	}
	server, err := testkube.Start(ctx, testkube.Config{Endpoints: etcd.Endpoints(), Dir: dir})
	if err != nil {
		return err
	}
	kube.server = server
	kube.end = append(kube.end, server.Close)
	kube.ca = server.CA
	kube.config = &rest.Config{Host: server.URL, Transport: server.Client.Transport, QPS: -1}
	if kube.client, err = client.New(kube.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return install(ctx, kube.client)
}

// install applies the CRDs as they are generated, and waits until they are served.
func install(ctx context.Context, c client.Client) error {
	files, err := filepath.Glob("../config/crd/etcdadm.io_*.yaml")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return err
		}
		if err := c.Create(ctx, crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, l := range []client.ObjectList{&v1alpha1.EtcdClusterList{}, &v1alpha1.EtcdBackupList{}, &v1alpha1.EtcdBackupScheduleList{}, &v1alpha1.EtcdRestoreList{}} {
		for {
			err := c.List(ctx, l)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond) // being served gives no event
		}
	}
	return nil
}

// refused says what the API server answers to an object that it is to refuse.
func refused(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Error("it was not refused")
		return ""
	}
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusUnprocessableEntity {
		t.Errorf("not refused as invalid: %v", err)
	}
	return err.Error()
}

// watching is a client that interceptors can be put around.
func watching(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(kube.config, client.Options{Scheme: scheme})
	must(t, err)
	return c
}
