package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEverythingSurvivesJSON fills every field of every noun with something
// of its own, so that a field that is not written, or two that share a name,
// show.
func TestEverythingSurvivesJSON(t *testing.T) {
	for _, zero := range []any{
		Observation{}, HostReport{}, HostState{}, Intent{}, Spec{}, Op{}, Guard{}, Projection{}, Memory{}, MemberView{}, MemberStatus{}, LocalMember{},
		Ping{}, ObserveRequest{}, ObserveReply{}, ApplyRequest{}, ApplyReply{}, Process{}, Gap{}, StoreView{}, PastGeneration{}, Fence{},
	} {
		typ := reflect.TypeOf(zero)
		t.Run(typ.Name(), func(t *testing.T) {
			full := reflect.New(typ)
			n := 0
			fill(t, full.Elem(), &n)
			mustSurvive(t, full, reflect.New(typ))
			mustSurvive(t, reflect.New(typ), reflect.New(typ))
		})
	}
}

func mustSurvive(t *testing.T, in, out reflect.Value) {
	t.Helper()
	b, err := json.Marshal(in.Interface())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, out.Interface()); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if diff := cmp.Diff(in.Interface(), out.Interface()); diff != "" {
		t.Errorf("through %s: %s", b, diff)
	}
	for _, secret := range []string{"password", "secret", "privatekey", "credential"} {
		if strings.Contains(strings.ToLower(string(b)), secret) {
			t.Errorf("%s has a field for a %s", in.Type(), secret)
		}
	}
}

// fill gives every field a value that no other field has.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(epoch.Add(time.Duration(*n) * time.Second)))
		return
	case Version:
		v.Set(reflect.ValueOf(Version{3, *n, 1}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint("key", *n): "value"}))
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		t.Fatalf("fill knows no %s", v.Type())
	}
}
