package cli

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// silent is a store that answers nothing.
type silent struct{}

func (silent) Get(ctx context.Context, _ string, _ blob.GetOptions) (*blob.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Put(ctx context.Context, _ string, _ io.Reader, _ blob.Condition) (blob.ETag, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func (silent) List(ctx context.Context, _ string) ([]blob.Info, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Delete(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A command whose context has no end of its own ends where the store falls silent.
func TestASilentStoreIsNotWaitedForWithoutEnd(t *testing.T) {
	f := control.New(silent{}, "")
	for name, do := range map[string]func(context.Context) error{
		"the spec to restore with": func(ctx context.Context) error {
			_, err := restoredSpec(ctx, f, backupstore.Backup{})
			return err
		},
		"the member count": func(ctx context.Context) error {
			_, err := askForMembers(ctx, f, 3)
			return err
		},
		"a restore": func(ctx context.Context) error {
			return new(queue).restore(ctx, f, control.RestoreBackup{Backup: "2026-01-02T03:04:05Z-000001"}, io.Discard, io.Discard)
		},
		"a wish": func(ctx context.Context) error {
			return new(queue).wish(ctx, f, control.Wish{Kind: cluster.CommandBackup}, io.Discard, io.Discard)
		},
		"the backups that are used": func(ctx context.Context) error {
			_, err := usedBackups(ctx, silent{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := do(t.Context())
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != storeTimeout {
					t.Errorf("it ended after %s with %v, want the bound of %s", took, err, storeTimeout)
				}
			})
		})
	}
}
