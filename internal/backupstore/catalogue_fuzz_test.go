package backupstore

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// FuzzCatalogue: whatever keys a store has and whatever is in them, it is listed, looked
// at, pruned and cleaned up; what is not a backup's own file stays, and so does every
// backup that a policy of everything keeps.
func FuzzCatalogue(f *testing.F) {
	f.Add("2026-11-20T23:08:18Z-000005/_etcd_backup.meta\n2026-11-20T23:08:18Z-000005/etcd.backup.gz\n2026-11-20T23:08:18Z-000005/notes.txt", []byte(`{"etcdVersion":"3.6.16","timestamp":"1795216397"}`))
	f.Add("2026-11-20T23:08:18Z-000005/etcd.backup.gz\n2026-11-20T23:08:18Z-000006/x/y\ncontrol/etcd-cluster-spec", []byte(`{}`))
	f.Add("../2026-11-20T23:08:18Z-000005/_etcd_backup.meta\n/\n2026-11-20T23:08:18Z-000005\n//_etcd_backup.meta\nx/_etcd_backup.meta", []byte("null"))
	f.Add("2026-02-30T23:08:18Z-000005/_etcd_backup.meta\n2018-01-01T00:00:00Z-000001/_etcd_backup.meta\n2018-01-01T00:00:00Z-000001/_etcdadm_manifest.json", []byte("\xff"))
	f.Fuzz(func(t *testing.T, keys string, content []byte) {
		store := memory.New()
		there := map[string]bool{}
		for _, k := range strings.SplitN(keys, "\n", 32) {
			if _, err := blob.PutBytes(t.Context(), store, k, content, blob.Any); err == nil {
				there[k] = true
			}
		}
		left := func() map[string]bool {
			infos, err := store.List(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]bool{}
			for _, i := range infos {
				out[i.Key] = true
			}
			return out
		}
		c := New(store)
		ctx := t.Context()
		l, err := c.Scan(ctx)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, b := range l.Backups {
			if _, err := backup.ParseName(b.Name.String()); err != nil || names[b.Name.String()] {
				t.Fatalf("%q is listed: %v", b.Name, err)
			}
			names[b.Name.String()] = true
			if _, err := c.Get(ctx, b.Name); err != nil {
				t.Fatalf("%q is listed, and cannot be looked at: %v", b.Name, err)
			}
			_, _ = c.Verify(ctx, b.Name, Identities{})
		}
		if _, err := c.Describe(ctx, l.Backups); err != nil {
			t.Fatal(err)
		}
		if now := left(); !maps.Equal(now, there) {
			t.Fatalf("looking made %v of %v", now, there)
		}
		late := time.Now().Add(100 * 365 * 24 * time.Hour)
		if _, err := c.Prune(ctx, backup.Policy{All: 1 << 62}, nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		for k := range there {
			if dir, _, _ := strings.Cut(k, "/"); names[dir] && !left()[k] {
				t.Fatalf("%q is gone, though everything was to be kept", k)
			}
		}
		if _, err := c.Prune(ctx, backup.Policy{}, nil, late); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CleanUp(ctx, time.Hour, late); err != nil {
			t.Fatal(err)
		}
		now := left()
		for k := range there {
			dir, file, inside := strings.Cut(k, "/")
			_, err := backup.ParseName(dir)
			if ours := inside && err == nil && isBackupFile(file); !ours && !now[k] {
				t.Fatalf("%q is gone, and no backup's", k)
			}
		}
		for k := range now {
			if !there[k] {
				t.Fatalf("%q was made", k)
			}
		}
	})
}

// FuzzKeys: whatever is given for a key of age, an error repeats none of it, and what is
// taken for keys seals, and opens what it has sealed.
func FuzzKeys(f *testing.F) {
	f.Add("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", "# created\nAGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n")
	f.Add("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p")
	f.Add("", "# nothing\n\n")
	f.Fuzz(func(t *testing.T, public, secret string) {
		const mark = "AGE-SECRET-KEY-1"
		r, err := ParseRecipients([]string{public})
		if err != nil && (err.Error() == "" || strings.Contains(err.Error(), mark) || len(err.Error()) > 300) {
			t.Fatalf("%q: %v", public, err)
		}
		if err == nil && (len(r.keys) != 1 || slices.ContainsFunc(r.names, func(n string) bool { return strings.Contains(n, mark) })) {
			t.Fatalf("%q is taken for %q", public, r.names)
		}
		ids, err := ParseIdentities(bytes.NewReader([]byte(secret)))
		if err != nil && (strings.Count(err.Error(), mark) > 0 || len(err.Error()) > 300) {
			t.Fatalf("%q: %v", secret, err)
		}
		if err == nil && len(ids.keys) == 0 {
			t.Fatalf("%q is no key, and taken", secret)
		}
	})
}
