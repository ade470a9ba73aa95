package sources

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

// A store that keeps what is to go is told of once, however many backups there
// are each time, and another trouble is told of as well.
func TestRetentionIsToldOnce(t *testing.T) {
	store := memory.New()
	c, folder := backupstore.New(store), control.New(store, "")
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	told := say.NewOnce(log)
	refusal := fmt.Errorf("%w: by the lock", blob.ErrRetained)
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		if call.Op == memory.Delete {
			return memory.Fault{Err: refusal}
		}
		return memory.Fault{}
	})
	old := time.Now().AddDate(-5, 0, 0)
	n := 0
	another := func() {
		t.Helper()
		n++
		name, err := backup.NewName(old.Add(time.Duration(n)*time.Minute), n)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"etcd.backup.gz": "x", backup.FileMeta: `{"etcdVersion":"3.7.3"}`} {
			if _, err := blob.PutBytes(t.Context(), store, string(name)+"/"+file, []byte(content), blob.IfAbsent); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		another()
		Tidy(t.Context(), c, folder, backup.DefaultPolicy(), log, told.Say)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), "kept by the store's retention") || strings.Contains(said.String(), "backups removed") {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
	said.Reset()
	refusal = blob.ErrForbidden
	another()
	Tidy(t.Context(), c, folder, backup.DefaultPolicy(), log, told.Say)
	if !strings.Contains(said.String(), "cannot remove backups") || !strings.Contains(said.String(), "not allowed") {
		t.Errorf("of another refusal it says %q", said.String())
	}
}
