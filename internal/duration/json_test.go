package duration

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

type named string

func (n named) MarshalText() ([]byte, error) { return []byte(n), nil }

type deep struct {
	Age time.Duration `json:"age,omitempty"`
}

type sample struct {
	Name   string                  `json:"name"`
	Uptime time.Duration           `json:"uptime"`
	Left   time.Duration           `json:"left,omitempty"`
	Most   *time.Duration          `json:"most,omitempty"`
	All    []time.Duration         `json:"all,omitempty"`
	By     map[named]time.Duration `json:"by,omitempty"`
	Deep   map[string][]*deep      `json:"deep,omitempty"`
	Again  *sample                 `json:"again,omitempty"`
	Raw    []byte                  `json:"raw,omitempty"`
	At     time.Time               `json:"at,omitzero"`
	Count  int64                   `json:"count,omitempty"`
	Of     named                   `json:"of,omitempty"`
	Plain  time.Duration
	Hidden time.Duration `json:"-"`
	*deep
}

func TestJSON(t *testing.T) {
	most := 90 * time.Second
	in := sample{
		Name: "<a>", Uptime: 412 * time.Millisecond, Most: &most, All: []time.Duration{time.Second, 1}, By: map[named]time.Duration{"x": time.Minute},
		Deep: map[string][]*deep{"age": {{Age: time.Hour}, nil, {}}}, Again: &sample{Left: -time.Second}, Raw: []byte("raw"),
		At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Count: 1e15, Of: "of", deep: &deep{Age: 2 * time.Second},
	}
	data, err := JSON(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"\u003ca\u003e","uptimeSeconds":0.412,"mostSeconds":90,"allSeconds":[1,0.000000001],"bySeconds":{"x":60},` +
		`"deep":{"age":[{"ageSeconds":3600},null,{}]},"again":{"name":"","uptimeSeconds":0,"leftSeconds":-1,"PlainSeconds":0},"raw":"cmF3","at":"2026-11-20T00:00:00Z","count":1000000000000000,"of":"of","PlainSeconds":0,"ageSeconds":2}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
	var back sample
	if err := FromJSON(data, &back); err == nil {
		t.Error("an unexported pointer was set") // as by package json
	}
	in.deep = nil
	for name, write := range map[string]func(any) ([]byte, error){"people's": JSON, "package json's": json.Marshal} {
		data, err := write(in)
		if err != nil {
			t.Fatal(err)
		}
		var back sample
		if err := FromJSON(data, &back); err != nil || !reflect.DeepEqual(back, in) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, back, err, in)
		}
	}
}

func TestFromJSONRefuses(t *testing.T) {
	for _, text := range []string{`{"uptimeSeconds":"long"}`, `{"uptimeSeconds":1e30}`, `{"uptimeSeconds":{}}`, `{`, ``, `[1]`} {
		var s sample
		if err := FromJSON([]byte(text), &s); err == nil {
			t.Errorf("%s was read as %+v", text, s)
		}
	}
}
