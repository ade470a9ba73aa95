package console

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzAccess: whatever lies where a daemon leaves how it is reached, it is an error that
// names the file, or an access that reads the same after it was written.
func FuzzAccess(f *testing.F) {
	f.Add([]byte(`{"cluster":"c","endpoints":["192.0.2.1:4000"],"credentials":"/var/lib/etcd/etcdadm/pki/operator","etcd":{"endpoints":["https://127.0.0.1:2379"],"ca":"/ca.crt","cert":"/c.crt","key":"/c.key"}}`))
	f.Add([]byte(`{"cluster":"","endpoints":null}`))
	f.Add([]byte(`{"endpoints":[null,""],"etcd":null} x`))
	f.Add([]byte("null"))
	f.Add([]byte{})
	dir := f.TempDir()
	state := filepath.Join(dir, "etcdadm")
	if err := os.Mkdir(state, 0o700); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(state, accessFile)
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := ReadAccess(dir)
		if err != nil {
			if !strings.Contains(err.Error(), path) || len(err.Error()) > len(path)+500 {
				t.Fatalf("%s: %v", content, err)
			}
			return
		}
		if a.Credentials == "" { // else files of that name are read
			if c, err := Open(a); err == nil {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := a.Write(state); err != nil {
			t.Fatal(err)
		}
		again, err := ReadAccess(dir)
		if err != nil || !reflect.DeepEqual(a, again) && len(a.Endpoints)+len(a.Etcd.Endpoints) > 0 {
			t.Fatalf("%s became %+v, and then %+v: %v", content, a, again, err)
		}
	})
}
