package control

import (
	"testing"
	"time"

	"etcdadm.io/internal/blob/memory"
)

// The hold is one key of an object that people and later releases write, too.
func TestHoldLeavesTheOtherSettingsAlone(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f := New(s, "etcd")
	place(t, s, keySpec, `{"memberCount":3,"etcdVersion":"3.6.16"}`)
	place(t, s, keySettings, `{"deadAfter":"5m","Hold":false,"color":{"of":"later"}}`)
	for _, hold := range []bool{true, true, false, true} {
		if err := f.Settings().Hold(ctx, hold); err != nil {
			t.Fatal(err)
		}
		read, err := f.ReadSpec(ctx)
		if err != nil || read.Spec.Hold != hold || read.Spec.DeadAfter != 5*time.Minute || len(read.Warnings) != 1 {
			t.Fatalf("hold %v: %+v, %q (%v)", hold, read.Spec, read.Warnings, err)
		}
	}
	if got, want := content(t, s, keySettings), "{\n  \"color\": {\n    \"of\": \"later\"\n  },\n  \"deadAfter\": \"5m\",\n  \"hold\": true\n}"; got != want {
		t.Errorf("the settings are %s, want %s", got, want)
	}
	place(t, s, keySettings, `null`)
	if err := f.Settings().Hold(ctx, true); err == nil {
		t.Errorf("what is no object was written over: %s", content(t, s, keySettings))
	}
}
