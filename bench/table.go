package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func printTable(w io.Writer, results []result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nwhat\tunit\tby hand, median (min–max)\tours, median (min–max)\tours / by hand\tours − by hand\tours must be\t")
	for _, r := range results {
		ratio, more := "–", "–"
		if len(r.hand) > 0 && len(r.ours) > 0 {
			if median(r.hand) > 0 {
				ratio = fmt.Sprintf("%.1f×", median(r.ours)/median(r.hand))
			}
			more = fmt.Sprintf("%+.*f", r.row.digits, median(r.ours)-median(r.hand))
		}
		verdict := r.verdict()
		if r.failed > 0 {
			verdict += fmt.Sprintf(", %d runs failed", r.failed)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.row.name, r.row.unit, r.row.spread(r.hand), r.row.spread(r.ours), ratio, more, r.row.bound(r.hand), verdict)
	}
	t.Flush()
}

func (r row) spread(v []float64) string {
	switch len(v) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.*f", r.digits, v[0])
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", r.digits, median(v), r.digits, v[0], r.digits, v[len(v)-1])
}

func (r row) bound(hand []float64) string {
	if r.target.times {
		return fmt.Sprintf("≤ %.*f (%.0f × by hand)", r.digits, r.target.limit(median(hand)), r.target.bound)
	}
	if !r.target.byHand {
		return fmt.Sprintf("≤ %.*f", r.digits, r.target.bound)
	}
	return fmt.Sprintf("≤ %.*f (by hand + %.1f)", r.digits, r.target.limit(median(hand)), r.target.bound)
}

// printProgress says a measure's rows as soon as they are there.
func printProgress(w io.Writer, rows []result) {
	for _, r := range rows {
		fmt.Fprintf(w, "%s: by hand %s, ours %s %s: %s\n", r.row.name, r.row.spread(r.hand), r.row.spread(r.ours), r.row.unit, r.verdict())
	}
}

// printRun is one run with its timeline.
func printRun(w io.Writer, m measure, who string, i int, s sample) {
	fmt.Fprintf(w, "  %s, %s, run %d: %.3f (load %.1f)\n", m.name, who, i, s.Values, s.Load)
	for _, e := range s.Events {
		fmt.Fprintf(w, "    %7.3f  %s\n", e.At, e.What)
	}
}

// writeJSON writes everything that was measured.
func writeJSON(file string, of about, results []result) error {
	type jsonRow struct {
		Measure string              `json:"measure"`
		Name    string              `json:"name"`
		Unit    string              `json:"unit"`
		Hand    []float64           `json:"hand,omitempty"`
		Ours    []float64           `json:"ours"`
		Limit   float64             `json:"limit"`
		Verdict string              `json:"verdict"`
		Runs    map[string][]sample `json:"runs,omitempty"`
	}
	out := struct {
		Machine about     `json:"machine"`
		Rows    []jsonRow `json:"rows"`
	}{Machine: of}
	last := ""
	for _, r := range results {
		j := jsonRow{Measure: r.measure, Name: r.row.name, Unit: r.row.unit, Hand: r.hand, Ours: r.ours,
			Limit: r.row.target.limit(median(r.hand)), Verdict: r.verdict()}
		if r.measure != last { // rows of one measure share their runs
			j.Runs, last = r.samples, r.measure
		}
		out.Rows = append(out.Rows, j)
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
