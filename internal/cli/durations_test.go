package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/plan"
	"etcdadm.io/plan/path"
)

// odd is a duration that no other number is, in nanoseconds.
const odd = 86400123456789 * time.Nanosecond

// fill gives every field that JSON shows a value, and every duration the odd one. It
// returns how many durations there are, and complains of what a text of JSON by the type
// would not reach.
func fill(t *testing.T, v reflect.Value, above []reflect.Type, path string) (durations int) {
	for _, a := range above {
		if a == v.Type() && v.Kind() == reflect.Struct {
			return 0
		}
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		v.SetInt(int64(odd))
		return 1
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(t, v.Elem(), above, path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(t, v.Index(0), above, path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		durations = fill(t, value, above, path)
		v.SetMapIndex(key, value)
		return durations
	case reflect.Interface:
		t.Errorf("%s is of any type: its durations are not found", path)
	case reflect.Struct:
		if _, itself := v.Addr().Interface().(encoding.TextMarshaler); itself { // a time, a version
			return 0
		}
		names := map[string]bool{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name != "" && names[name] || names[name+"Seconds"] || names[strings.TrimSuffix(name, "Seconds")] && strings.HasSuffix(name, "Seconds") {
				t.Errorf("%s has two fields that are %sSeconds in JSON", path, name)
			}
			names[name] = true
			durations += fill(t, v.Field(i), append(above, v.Type()), path+"."+f.Name)
		}
	}
	return durations
}

// No duration that a person is shown in JSON or YAML is a number without its unit.
func TestDurationsAreToldInSeconds(t *testing.T) {
	all := 0
	for _, shown := range []any{
		&statusJSON{}, &plan.Decision{}, &survivors{}, &wouldQueue{}, &manager.GoalResult{}, &cluster.Observation{}, &console.Report{}, &console.FenceReset{}, &console.Forgot{}, &console.Pruned{},
		&path.Path{}, &listedBackup{}, &backup.Manifest{}, &upgradeWay{}, &prunedAside{}, &optionPlan{}, &knownOption{}, &raised{}, &listedMember{}, &restoredFile{}, &savedSnapshot{}, &snapshot.Info{}, &snapshot.Drilled{}, &release.Fetched{}, &console.Said{},
	} {
		name := reflect.TypeOf(shown).Elem().String()
		n := fill(t, reflect.ValueOf(shown).Elem(), nil, name)
		all += n
		for _, output := range []string{"json", "yaml"} {
			var out bytes.Buffer
			if err := (&reach{output: output}).print(&out, shown, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if text := out.String(); strings.Contains(text, "86400123456789") {
				t.Errorf("%s shows a duration in nanoseconds:\n%s", name, text)
			}
		}
		data, err := duration.JSON(shown)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(data, []byte(`Seconds":86400.123456789`)); got != n {
			t.Errorf("%s shows %d durations in seconds, and has %d", name, got, n)
		}
		plain, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{data, plain} {
			back := reflect.New(reflect.TypeOf(shown).Elem())
			if err := duration.FromJSON(text, back.Interface()); err != nil {
				continue // filled as no cluster is
			}
			if again, err := json.Marshal(back.Interface()); err != nil || !bytes.Equal(again, plain) {
				t.Errorf("%s is read back as %s, %v\nwant %s", name, again, err, plain)
			}
		}
	}
	if all < 20 {
		t.Errorf("%d durations were looked at", all)
	}
}

// What people are shown in JSON goes through package duration: nothing else here writes
// JSON or YAML, but for what is named.
func TestJSONForPeopleIsWrittenInOneWay(t *testing.T) {
	allowed := map[string]string{"dump.go": "keys and values, without a duration"}
	var files []string
	for _, pattern := range []string{"*.go", "../playground/*.go", "../daemon/metrics.go"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || allowed[file] != "" {
			continue
		}
		seen++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := s.X.(*ast.Ident); ok && (pkg.Name == "json" || pkg.Name == "yaml") && (strings.HasPrefix(s.Sel.Name, "Marshal") || s.Sel.Name == "NewEncoder") {
				t.Errorf("%s: %s.%s writes durations as bare numbers; use package duration", set.Position(n.Pos()), pkg.Name, s.Sel.Name)
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("%d files were looked at", seen)
	}
}
