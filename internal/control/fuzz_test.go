package control

import (
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

func seed(f *testing.F) {
	files, err := filepath.Glob("testdata/fixtures/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"member_count":"3","etcd_version":"v3.6.16","x":null}`))
	f.Add([]byte(`{"timestamp":"1","restoreBackup":{"clusterSpec":{"memberCount":3},"backup":"2026-11-20T23:14:17Z-000001"}}`))
	f.Add([]byte(`{"timestamp":1,"name":"etcd","generation":1,"nonce":"n","token":"t","write":1,"state":"founded"}`))
}

// What is read as a spec and makes sense is read again the same after it was
// written.
func FuzzSpec(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseSpec(data)
		if err != nil || got.Spec.Validate() != nil {
			return
		}
		again, err := parseSpec(formatSpec(*got.Spec))
		if err != nil || !again.Spec.Equal(*got.Spec) || len(again.Warnings) != 0 {
			t.Fatalf("%q became %+v and then %+v, %v", data, got, again, err)
		}
		if _, err := applySettings(new(cluster.Spec), data); err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
	})
}

func FuzzIntent(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := parseIntent(data)
		if err != nil {
			return
		}
		if in == nil || !in.Adopted() && checkIntent(in) != nil {
			t.Fatalf("%q was accepted as %+v", data, in)
		}
	})
}

func FuzzCommand(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Command
		if parseCommand(data, &c) != nil {
			return
		}
		var again Command
		if err := parseCommand(formatRestore(c.Timestamp, *c.Restore), &again); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if !again.Timestamp.Equal(c.Timestamp) || again.Restore.Backup != c.Restore.Backup || again.Restore.Spec.MemberCount != c.Restore.Spec.MemberCount {
			t.Fatalf("%q became %+v and then %+v", data, c.Restore, again.Restore)
		}
	})
}

// FuzzFolder: whatever lies in the folder, reading it ends with an error or a value, never otherwise.
func FuzzFolder(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		store := memory.New()
		const dir, wish = Prefix + "2026-11-20T23:14:17Z-000001/", Prefix + "2026-11-20T23:14:17Z-000002/"
		for _, key := range []string{
			KeyIntent, keySpec, keySettings, keyRecord, keyStatus, keyEnded, dir + fileCommand, dir + fileExtra, wish + fileWish,
		} {
			if _, err := blob.PutBytes(t.Context(), store, key, data, blob.Any); err != nil {
				t.Fatal(err)
			}
		}
		folder := New(store, "etcd")
		ctx := t.Context()
		_, _ = folder.ReadSpec(ctx)
		_, _ = folder.ReadRecord(ctx)
		_, _, _ = folder.ReadStatus(ctx)
		_, _, _, _ = folder.ReadIntent(ctx)
		_, _ = folder.EndedCommands(ctx)
		commands, err := folder.Commands(ctx)
		if err == nil && len(commands) > 2 {
			t.Errorf("two commands are read as %d", len(commands))
		}
	})
}
