package plan

import (
	"encoding/json"
	"testing"
	"time"
)

// TestBlockerIsPassedOnWithItsFacts: a program that reads a blocker and writes it again, as
// etcdadm status does, loses neither facts nor subject.
func TestBlockerIsPassedOnWithItsFacts(t *testing.T) {
	b := Blocker{Code: "x", Sentence: Say("host {host} is silent for {lasted}", "b", 90*time.Second), Command: "fix it"}
	first, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"code":"x","subject":"b","facts":{"host":"b","lastedSeconds":90},"sentence":"host b is silent for 1m30s","command":"fix it"}`
	if string(first) != want {
		t.Errorf("it is written as\n%s, want\n%s", first, want)
	}
	var read Blocker
	if err := json.Unmarshal(first, &read); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(read); err != nil || string(again) != string(first) {
		t.Errorf("%v: it is passed on as\n%s, and was\n%s", err, again, first)
	}
}
