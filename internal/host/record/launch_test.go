package record

import (
	"reflect"
	"slices"
	"testing"

	"etcdadm.io/cluster"
)

// A process goes on only where nothing is to be otherwise: each field of a launch, and of
// its URLs, is a reason to start another one, but for those that say nothing about it.
func TestLaunchIsTheSame(t *testing.T) {
	no := []string{"Nonce", "InitialCluster", "Founding"}
	of := func() Launch {
		return Launch{
			Version: cluster.MustVersion("3.6.16"), Name: "n", Token: "t", Options: []string{"--a=b"},
			URLs: cluster.URLs{Peer: []string{"p"}, Client: []string{"c"}, Quarantine: []string{"q"}},
		}
	}
	if !of().Same(of()) {
		t.Fatal("one launch is another one")
	}
	each(t, reflect.TypeFor[Launch](), "", func(path []int, name string) {
		other := of()
		alter(t, reflect.ValueOf(&other).Elem().FieldByIndex(path))
		if got, want := of().Same(other), slices.Contains(no, name); got != want {
			t.Errorf("with another %s it is the same: %t", name, got)
		}
	})
}

// each visits the fields of a struct, and those of the structs in it.
func each(t *testing.T, typ reflect.Type, within string, visit func(path []int, name string)) {
	t.Helper()
	for f := range typ.NumField() {
		field := typ.Field(f)
		if field.Type.Kind() == reflect.Struct {
			each(t, field.Type, within+field.Name+".", func(path []int, name string) { visit(append([]int{f}, path...), name) })
			continue
		}
		visit([]int{f}, within+field.Name)
	}
}

func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
	default:
		t.Fatalf("a field is of a kind that this test does not know: %s", v.Type())
	}
}
