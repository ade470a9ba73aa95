package sources

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
)

// A backup of version 2 is good only if it holds all that the member had when it was
// taken, which its manifest tells; of another program's nobody knows that.
func TestDrillV2HoldsWhatTheMemberHad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V23})
	m := c.Members[0]
	u := url.URL{Scheme: "http", Host: m.Endpoint(), Path: "/v2/keys/a"}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), strings.NewReader("value=1"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if err := c.Kill(ctx, 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	d := Drill{Finder: &release.Finder{Dirs: []string{cache}}}
	version := cluster.MustVersion(testetcd.V23)
	drill := func(m *backup.Manifest) (snapshot.Drilled, error) {
		t.Helper()
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, dirBackup), os.DirFS(c.Members[0].DataDir)); err != nil {
			t.Fatal(err)
		}
		return d.drillV2(ctx, backupstore.Backup{Meta: backup.Meta{EtcdVersion: version}, Manifest: m}, dir)
	}
	of := func(index int64) *backup.Manifest {
		return &backup.Manifest{Position: backup.Position{Revision: index}}
	}
	drilled, err := drill(nil)
	if err != nil || drilled.Info.Keys != 1 || drilled.Info.Revision == 0 {
		t.Fatalf("%+v, %v", drilled, err)
	}
	at := drilled.Info.Revision
	if got, err := drill(of(at)); err != nil || got.Info.Revision != at {
		t.Errorf("with all that the member had: %+v, %v", got, err)
	}
	if _, err := drill(of(at + 1)); !errors.Is(err, snapshot.ErrDiffers) {
		t.Errorf("with less than the member had: %v", err)
	}
}
