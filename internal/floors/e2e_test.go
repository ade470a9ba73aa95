package floors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllOfE2EKnowsItsFlags: each package of e2e has rig.Main or at least rig's flags, since one call of go test gives
// them to all of it.
func TestAllOfE2EKnowsItsFlags(t *testing.T) {
	dirs, err := filepath.Glob("../../e2e/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		knows := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			knows = knows || strings.Contains(string(text), `"etcdadm.io/e2e/internal/rig"`)
		}
		if !knows && len(files) > 0 {
			t.Errorf("%s does not know -e2e.long: call rig.Main in its TestMain", dir)
		}
	}
}
