package record

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzAdmission: what is read as an admission has what a first start needs, and
// reads back as it is.
func FuzzAdmission(f *testing.F) {
	f.Add([]byte(`{"cluster":"1","token":"t","known":["2"],"urls":{"client":["http://192.0.2.1:2379"],"peer":["http://192.0.2.1:2380"]},"version":"3.6.16","member":"3"}`))
	f.Add([]byte(`{"cluster":"0"}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ParseAdmission(data)
		if err != nil || a == nil {
			return
		}
		if a.Cluster == 0 || a.Token == "" || len(a.Known) == 0 || len(a.URLs.Peer) == 0 {
			t.Fatalf("%s was taken for %+v", data, a)
		}
		written, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseAdmission(written)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, written, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(written) {
			t.Fatal(cmp.Diff(a, again))
		}
	})
}
