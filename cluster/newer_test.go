package cluster

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/testlater"
)

// An intent of a later release is never taken for one that lacks what this release does not know,
// wherever in it that is and whatever it is a part of.
func TestIntentOfALaterRelease(t *testing.T) {
	n := 0
	for _, c := range []struct {
		value any
		below string
		least int
	}{
		{Intent{}, "", 15},
		{HostState{}, "/intent/", 15},
		{ObserveRequest{}, "/intent/", 15},
		{ObserveReply{}, "/intent/", 15},
		{Observation{}, "/intent/", 30}, // the store's, and those of two hosts
	} {
		typ := reflect.TypeOf(c.value)
		full := reflect.New(typ)
		fill(t, full.Elem(), &n)
		forms := testlater.Forms(t, full.Interface(), c.below)
		if len(forms) < c.least {
			t.Errorf("%s has %d objects only: %v", typ, len(forms), slices.Sorted(maps.Keys(forms)))
		}
		for path, data := range forms {
			err := json.Unmarshal(data, reflect.New(typ).Interface())
			var newer *NewerError
			if !errors.As(err, &newer) || !strings.Contains(newer.Error(), testlater.Field) || newer.Hint() == "" {
				t.Errorf("%s with a field more at %s is read with %v", typ, path, err)
			}
		}
	}
}

// What is wrong otherwise is no matter of releases.
func TestBrokenIntent(t *testing.T) {
	for _, text := range []string{`{"generation":"one"}`, `{"generation":"one","laterField":1}`, `[]`, `{"founders":[{"member":"zz"}]}`, `{`} {
		var in Intent
		err := json.Unmarshal([]byte(text), &in)
		if err == nil || errors.As(err, new(*NewerError)) {
			t.Errorf("%s is read with %v", text, err)
		}
	}
	if err := UnmarshalKnown([]byte(`{} {}`), new(struct{}), "it"); err == nil {
		t.Error("two values are one")
	}
	in := Intent{Generation: 3}
	if err := json.Unmarshal([]byte(`null`), &in); err != nil || in.Generation != 3 { // as it is of other types
		t.Errorf("null: %v, %d", err, in.Generation)
	}
}

// FuzzIntent: an intent that is taken is the same when it was written and read again, and is not
// taken any more with a field in it that is not known.
func FuzzIntent(f *testing.F) {
	f.Add([]byte(`{"timestamp":1,"name":"c","generation":2,"nonce":"n","token":"t","version":"3.6.16","founders":[{"host":"a","disk":"d","member":"1f","urls":{"peer":["http://a:2380"]}}],
		"source":{"kind":"backup","wrote":"3.5.21"},"write":4,"unstored":{"number":1,"host":"a"},"state":"founded","count":{},"cluster":"7","voters":[{"host":"a"}],"next":[{"host":"b"}],
		"pending":[{}],"halt":{},"lost":["c"],"commandsRun":["x"],"history":[{"generation":1,"voters":[[{"host":"a"}],[]],"closed":true}]}`))
	f.Add([]byte(`{"generation":1,"voters":[{"host":"a","later":1}]}`))
	f.Add([]byte(`{"generation":1,"halt":null,"history":[{"voters":[[{"host":"a"}]]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in, again Intent
		if json.Unmarshal(data, &in) != nil {
			return
		}
		kept, err := json.Marshal(&in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
		if written, err := json.Marshal(&again); err != nil || string(written) != string(kept) {
			t.Errorf("%s became %s (%v)", kept, written, err)
		}
		for path, data := range testlater.Forms(t, &in, "") {
			if err := json.Unmarshal(data, new(Intent)); !errors.As(err, new(*NewerError)) {
				t.Errorf("with a field more at %q it is read with %v: %s", path, err, data)
			}
		}
	})
}
