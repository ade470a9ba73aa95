package plugin

import "testing"

// Each command is in a group, says what it does, and shows how.
func TestHelp(t *testing.T) {
	root := tree(new(place))
	if n := len(root.Commands()); n != 8 {
		t.Errorf("%d commands", n)
	}
	for _, c := range root.Commands() {
		if c.GroupID == "" || c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: group %q, %q, %q, %q", c.Name(), c.GroupID, c.Short, c.Long, c.Example)
		}
	}
}
