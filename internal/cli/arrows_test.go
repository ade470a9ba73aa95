package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// others are the programs beside etcdadm that a person may be told to run.
var others = []string{"etcd-manager-ctl", "etcdctl", "etcdutl", "systemctl", "journalctl"}

// prose is what no command line has, or goes on after one.
var prose = regexp.MustCompile(`[,;:.] |[,;:]$| (and|or|then|where|which|until) `)

// unpasteable is why a text behind an arrow is no command; empty: it is one.
func unpasteable(root *cobra.Command, text string) string {
	words := strings.Fields(text)
	switch {
	case len(words) < 2:
		return "it is one word"
	case prose.MatchString(text):
		return "words go on after it"
	case slices.Contains(others, words[0]):
		return ""
	case words[0] != "etcdadm":
		return "it is of no program that is known"
	}
	c, rest, err := root.Find(words[1:])
	if err != nil || c == root || c.HasSubCommands() {
		return "etcdadm has no such command"
	}
	known := map[string]bool{"yes": true}
	note := func(f *pflag.Flag) { known[f.Name] = true }
	c.Flags().VisitAll(note)
	c.PersistentFlags().VisitAll(note)
	c.InheritedFlags().VisitAll(note)
	for _, w := range rest {
		name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		if strings.HasPrefix(w, "--") && !known[name] {
			return "it has no flag " + w
		}
	}
	return ""
}

// An arrow means: you act, and this is what you type. Each that a decision of the
// planner's scenarios comes with is a command, with flags that it has; advice is not.
func TestArrowsAreCommands(t *testing.T) {
	root := tree(daemon.Program{})
	var files []string
	for _, pattern := range []string{"../../plan/testdata/*.txt", "../../plan/testdata/*/*.txt"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	commands, advice := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			if said, ok := strings.CutPrefix(line, "    advice: "); ok {
				if advice++; unpasteable(root, said) == "" {
					t.Errorf("%s:%d: advice that is a command has no arrow: %s", file, i+1, said)
				}
			}
			for _, before := range []string{"    lifted by: ", "  command: "} {
				if said, ok := strings.CutPrefix(line, before); ok {
					if commands++; unpasteable(root, said) != "" {
						t.Errorf("%s:%d: %s: %s", file, i+1, unpasteable(root, said), said)
					}
				}
			}
		}
	}
	if commands < 100 || advice < 10 {
		t.Errorf("%d commands and %d words of advice were looked at", commands, advice)
	}
}

// So is each that the planner has a text of, whether a scenario comes to it or not.
func TestArrowsOfThePlannerAreCommands(t *testing.T) {
	at := map[string]int{"Notice": 1, "Refuse": 1, "Stuck": 1, "WaitLater": 1, "Wait": 2, "Advise": 2}
	files, err := filepath.Glob("../../plan/internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			i, ok := at[name]
			if !ok || len(call.Args) <= i {
				return true
			}
			text, ok := begins(call.Args[i])
			if !ok || text == "" {
				return true
			}
			seen++
			if first, _, _ := strings.Cut(text, " "); first != "etcdadm" && !slices.Contains(others, first) || prose.MatchString(text) {
				t.Errorf("%s: no command stands behind this arrow: %s", set.Position(call.Pos()), text)
			}
			return true
		})
	}
	if seen < 20 {
		t.Errorf("%d texts were looked at", seen)
	}
}

// begins is the text that an expression begins with, where that is written there.
func begins(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		return begins(x.X)
	case *ast.CallExpr:
		if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" && len(x.Args) > 0 {
			return begins(x.Args[0])
		}
	}
	return "", false
}
