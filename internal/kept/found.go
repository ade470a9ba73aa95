package kept

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/register"
)

// maxFirst bounds an object of a new record, in bytes.
const maxFirst = 128 << 10

// Found makes the record of a new cluster on this host, which keeps it alone until others join: with the objects that fill
// writes. A host that keeps a record already is not changed, and the error is keeper.ErrOther. No daemon runs on the data
// directory.
func Found(ctx context.Context, dataDir string, host cluster.HostID, mint func() string, fill func(context.Context, blob.Store) error) error {
	dir := filepath.Join(dataDir, "etcdadm")
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	k, err := keeper.Open(dir, durable.OS())
	if err != nil {
		return err
	}
	if name := k.Record(); name != "" { // before fill, which may be long
		return fmt.Errorf("%w: %s", keeper.ErrOther, name)
	}
	store := memory.New()
	if err := fill(ctx, store); err != nil {
		return err
	}
	infos, err := store.List(ctx, "")
	if err != nil {
		return err
	}
	objects := map[string]register.Object{}
	for _, i := range infos {
		data, _, err := blob.ReadAll(ctx, store, i.Key, maxFirst)
		if err != nil {
			return fmt.Errorf("make the record: %w", err)
		}
		objects[i.Key] = register.Object{Tag: mint(), Data: data, Modified: time.Now().UnixNano()}
	}
	_, err = k.Found(ctx, host, mint, objects)
	return err
}

// ownDir is where a host has its copies of backups, below the data directory.
const ownDir = "kept"

// Own is what the host with this data directory has on its own disk: its copies of backups. The directory is made.
func Own(ctx context.Context, dataDir string) (blob.Store, error) {
	return file.Open(ctx, OwnDir(dataDir), file.Options{Create: true})
}

// OwnDir is the directory of [Own].
func OwnDir(dataDir string) string { return filepath.Join(dataDir, ownDir) }

// Founder reads from the record that this host keeps, before its daemon runs, who founded it: what ask finds in the objects
// that this host accepted last.
func Founder(ctx context.Context, dataDir string, ask func(context.Context, blob.Store) (string, error)) (string, error) {
	k, err := keeper.Open(filepath.Join(dataDir, "etcdadm"), durable.OS())
	if err != nil {
		return "", err
	}
	objects, err := k.Objects(ctx)
	if err != nil {
		return "", err
	}
	store := memory.New()
	for key, o := range objects {
		if _, err := blob.PutBytes(ctx, store, key, o.Data, blob.Any); err != nil {
			return "", err
		}
	}
	return ask(ctx, store)
}
