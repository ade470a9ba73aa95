package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What was found can be read: by a person as a page, by the checker once more, and each key without an order as a picture.
func TestReportIsWritten(t *testing.T) {
	h := ordinary()
	h.Began = time.Now().Add(-time.Minute).Round(0)
	h.Faults = []Span{{From: 10 * ms, To: 90 * ms, Text: "cut <host 2> off"}}
	o := h.find(func(o Operation) bool { return o.Kind == Get && o.Found })
	o.Found, o.Read, o.Mod = false, "", 0
	key := o.Key
	dir := t.TempDir()
	log := filepath.Join(dir, "1.log")
	lines := "time=" + h.Began.Add(50*time.Millisecond).Format(time.RFC3339Nano) + ` level=INFO msg=decision rule=grow reason="two of three"` + "\n" +
		"time=" + h.Began.Add(-time.Hour).Format(time.RFC3339Nano) + " level=INFO msg=before\nno line of a log\n"
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	report := Check(h)
	if err := report.Write(filepath.Join(dir, "out"), Log("host 1", log), Log("host 2", filepath.Join(dir, "none"))); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		TimelineFile: {"cut &lt;host 2&gt; off", "two of three", "no such file", "nothing explains", "accused", `class="event"`},
		FindingsFile: {"1 findings", "no order"},
		"order-" + strings.ReplaceAll(key, "/", "_") + ".html": {"<html", key},
	} {
		data, err := os.ReadFile(filepath.Join(dir, "out", file))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s does not tell of %q", file, want)
			}
		}
		if strings.Contains(string(data), "msg=before") {
			t.Errorf("%s tells of what was before", file)
		}
	}
	again, err := Load(filepath.Join(dir, "out", HistoryFile))
	if err != nil {
		t.Fatal(err)
	}
	if was, is := report.Err().Error(), Check(again).Err().Error(); was != is {
		t.Errorf("checked again: %s\nbefore: %s", is, was)
	}
}
