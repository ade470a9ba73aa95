package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/blob/kubernetes"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testkube"
)

const (
	namespace  = "clusters"
	controlMap = "main-control"
	statusMap  = "main-status"
	configMaps = "/api/v1/namespaces/" + namespace + "/configmaps/"
)

// objects are those of a ConfigMap, by their keys.
func objects(ctx context.Context, api *testkube.Server, name string) (map[string]string, error) {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if err := api.Do(ctx, http.MethodGet, configMaps+name, nil, &m); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for entry, value := range m.Data {
		key, ours := kubernetes.Key(entry)
		if !ours {
			return nil, fmt.Errorf("the entry %q of %s is no key's", entry, name)
		}
		out[key] = value
	}
	return out, nil
}

// into reads an object of a ConfigMap.
func into(ctx context.Context, api *testkube.Server, name, key string, v any) error {
	all, err := objects(ctx, api, name)
	if err != nil {
		return err
	}
	if all[key] == "" {
		return fmt.Errorf("%s has no %s", name, key)
	}
	return json.Unmarshal([]byte(all[key]), v)
}

// The control record of a cluster on bare hosts lies in two ConfigMaps, its backups in a directory. The cluster is founded, grows and
// heals; members serve and start again while the API server is dead; and a record that somebody deleted is written back into the empty
// ConfigMap that its owner makes, and into none that is missing.
func TestRecordInConfigMaps(t *testing.T) {
	rig.TakesLong(t, "most of a minute")
	t.Parallel()
	api := testkube.Run(t)
	ctx := t.Context()
	account := filepath.Join(t.TempDir(), "account")
	for _, name := range []string{controlMap, statusMap} {
		if err := api.ConfigMap(ctx, namespace, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Account(ctx, namespace, "main", account, []string{controlMap, statusMap}, []string{"get", "watch", "update"}); err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("kubernetes://%s/main?server=%s&account=%s", namespace, api.URL, account)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Control: url, Flags: []string{"--dead-after=8s", "--backup-interval=0", "--discovery-poll-interval=1s"}})
	var endpoints []string
	for _, h := range c.Hosts {
		endpoints = append(endpoints, h.Endpoint())
	}
	for _, h := range c.Hosts {
		h.Flags = append(h.Flags, "--discovery="+strings.Join(endpoints, ","), fmt.Sprintf("--etcd-manager-metrics-port=%d", rig.PortMetrics+c.Block.Shift))
	}
	r := c.Etcdadm("seed", url, "--version", c.Options.Version, "--nodes", "1")
	if r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Start(1, 2, 3)
	told := func(what string, is func(control.Status) error) {
		t.Helper()
		rig.Eventually(t, rig.Soon, what, func(ctx context.Context) error {
			var s control.Status
			if err := into(ctx, api, statusMap, "control/etcdadm-status.json", &s); err != nil {
				return err
			}
			return is(s)
		})
	}
	told("one voter is told", func(s control.Status) error {
		if up, voters := s.Voters(); up != 1 || voters != 1 || s.Generation != 1 || s.ClusterID == 0 || len(s.Hosts) != 3 || s.Version.String() != c.Options.Version {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	c.Configure(3)
	c.Voters(rig.Soon, 1, 2, 3)
	client := c.NewClient()
	defer client.Close()
	w := c.Write()
	w.WaitFor(20)
	if r := c.Etcdadm("backup", "create", "--data-dir", c.Host(1).Dir, "--wait", "60s"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	if r := c.Etcdadm("backup", "list", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK || strings.Count(r.Stdout, "Z-") < 1 {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("store", "status", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "kubernetes://clusters/main") || !strings.Contains(r.Stdout, "the backups are kept in file://") {
		t.Errorf("%s", r)
	}
	told("three voters and the backup are told", func(s control.Status) error {
		if up, voters := s.Voters(); up != 3 || voters != 3 || s.Backup == nil {
			return fmt.Errorf("%+v", s)
		}
		for _, h := range s.Hosts {
			if h.Data != cluster.DataMember || h.Disk == "" {
				return fmt.Errorf("%+v", h)
			}
		}
		return nil
	})
	c.Host(3).KillEtcd()
	c.Host(3).Serves(rig.Soon)

	api.Kill()
	w.WaitFor(20)
	c.Host(2).Interrupt() // etcd with it
	c.Start(2)
	c.Host(2).Serves(rig.Soon)
	w.WaitFor(20)
	if err := api.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	well := func() {
		t.Helper()
		rig.Eventually(t, rig.Soon, "all is well", func(context.Context) error {
			if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
				return fmt.Errorf("%s", r)
			}
			return nil
		})
	}
	well()

	var before, after cluster.Intent
	if err := into(ctx, api, controlMap, "control/etcd-cluster-created", &before); err != nil {
		t.Fatal(err)
	}
	if err := api.Do(ctx, http.MethodDelete, configMaps+controlMap, nil, nil); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Soon, "the missing ConfigMap is told", func(context.Context) error {
		if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); !strings.Contains(r.Stdout, "the ConfigMap is missing: clusters/main-control") {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	w.WaitFor(20)
	_, err := objects(ctx, api, controlMap)
	if told, ok := errors.AsType[*testkube.StatusError](err); !ok || told.Code != http.StatusNotFound {
		t.Errorf("a daemon made the ConfigMap: %v", err)
	}
	if err := api.ConfigMap(ctx, namespace, controlMap); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, time.Minute, "the record is written back", func(ctx context.Context) error {
		return into(ctx, api, controlMap, "control/etcd-cluster-created", &after)
	})
	if after.Nonce != before.Nonce || after.Generation != before.Generation || after.Cluster != before.Cluster {
		t.Errorf("the record was of generation %d (%s), and is of %d (%s)", before.Generation, before.Nonce, after.Generation, after.Nonce)
	}
	c.Configure(3)
	well()
	w.End()

	// Without a quorum the daemon lives, and its member is no voter that serves.
	page := func(path string, want int) {
		t.Helper()
		rig.Eventually(t, rig.Soon, path, func(ctx context.Context) error {
			code, body, err := c.Host(2).Fetch(ctx, path)
			if err == nil && code != want {
				err = fmt.Errorf("%d %s", code, body)
			}
			return err
		})
	}
	page("/voterz", http.StatusOK)
	c.Host(1).Interrupt()
	c.Host(3).Interrupt()
	page("/voterz", http.StatusServiceUnavailable)
	page("/healthz", http.StatusOK)
	all, err := objects(ctx, api, controlMap)
	if err != nil {
		t.Fatal(err)
	}
	for key := range all {
		if !strings.HasPrefix(key, control.Prefix) {
			t.Errorf("a daemon left %s", key)
		}
	}
}
