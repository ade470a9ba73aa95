package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Files that Write makes.
const (
	HistoryFile  = "history.json"
	FindingsFile = "findings.txt"
	TimelineFile = "timeline.html"
)

// Write keeps what was seen and found in a directory: the history as JSON, the findings as text, a timeline that a person can
// read, and for each key without an order the checker's own picture of it.
func (r Report) Write(dir string, logs ...Lane) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	text := r.String() + "\n"
	for _, f := range r.Findings {
		text += f.String() + "\n"
	}
	errs := []error{r.history.Save(filepath.Join(dir, HistoryFile)),
		os.WriteFile(filepath.Join(dir, FindingsFile), []byte(text), 0o600),
		r.writeTimeline(filepath.Join(dir, TimelineFile), logs)}
	for key, info := range r.orders {
		name := "order-" + strings.NewReplacer("/", "_", string(filepath.Separator), "_").Replace(key) + ".html"
		errs = append(errs, porcupine.VisualizePath(model, info, filepath.Join(dir, name)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
