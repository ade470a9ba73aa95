package control

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"etcdadm.io/internal/blob/memory"
)

// A change of options that somebody else's write overtook is not made.
func TestAmendOptionsOnCondition(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f := New(s, "etcd")
	place(t, s, keySpec, `{"memberCount":3,"etcdVersion":"3.6.16"}`)
	set := func(name string) func(map[string]string) (map[string]string, error) {
		return func(now map[string]string) (map[string]string, error) {
			now[name] = "1"
			return now, nil
		}
	}
	if after, err := f.Settings().AmendOptions(ctx, set("snapshot-count")); err != nil || !maps.Equal(after, map[string]string{"snapshot-count": "1"}) {
		t.Fatalf("%v, %v", after, err)
	}
	_, err := f.Settings().AmendOptions(ctx, func(now map[string]string) (map[string]string, error) {
		place(t, s, keySettings, `{"hold":true}`)
		return set("max-wals")(now)
	})
	if !errors.Is(err, ErrConflict) || strings.Contains(content(t, s, keySettings), "max-wals") {
		t.Fatalf("%v; %s", err, content(t, s, keySettings))
	}
	refused := errors.New("refused")
	if _, err := f.Settings().AmendOptions(ctx, func(map[string]string) (map[string]string, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if _, err := f.Settings().AmendOptions(ctx, set("max-wals")); err != nil {
		t.Fatal(err)
	}
	_, err = f.Settings().AmendOptions(ctx, func(map[string]string) (map[string]string, error) { return nil, nil })
	if got := content(t, s, keySettings); err != nil || strings.Contains(got, "options") || !strings.Contains(got, `"hold": true`) {
		t.Fatalf("%s, %v", got, err)
	}
}
