package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The help and the page have every exit code, with the same words.
func TestExitCodesAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/install-and-run.md")
	if err != nil {
		t.Fatal(err)
	}
	code, help, errs := runEtcdadm("exit-codes")
	if code != ExitOK || errs != "" {
		t.Fatal(code, errs)
	}
	for _, e := range exitCodes {
		if !strings.Contains(help, fmt.Sprintf("  %-4d %s\n", e.Code, e.Means)) {
			t.Errorf("the help does not say what %d means: %s", e.Code, help)
		}
		means := strings.ReplaceAll(e.Means, "--wait", "`--wait`")
		if !strings.Contains(string(page), fmt.Sprintf("| %d | %s |\n", e.Code, means)) {
			t.Errorf("docs/operations/install-and-run.md does not have the row of %d: %s", e.Code, means)
		}
	}
}
