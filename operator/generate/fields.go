package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is what a CRD says of a field: as the types say it, with their comments and markers.
type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Additional  *schema           `json:"additionalProperties"`
	AnyOf       []schema          `json:"anyOf"`
	Rules       []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// definition is of a CRD what the table is made of.
type definition struct {
	Spec struct {
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

const fieldsHead = "# Fields\n\nMade of the Go types by `go generate ./...` in `operator`. All kinds are of `etcdadm.io/v1alpha1`. A field in\n**bold** is required where what it is part of is given. In *italics*: what the API server says when it refuses.\n"

// fields makes the table of fields of all kinds.
func fields(dir string) (string, error) {
	var out strings.Builder
	out.WriteString(fieldsHead)
	for _, crd := range crds {
		data, err := os.ReadFile(filepath.Join(dir, "config/crd/etcdadm.io_"+crd+".yaml"))
		if err != nil {
			return "", err
		}
		var d definition
		if err := yaml.Unmarshal(data, &d); err != nil {
			return "", err
		}
		if len(d.Spec.Versions) != 1 {
			return "", fmt.Errorf("%s has %d versions, and the table is of one", crd, len(d.Spec.Versions))
		}
		root := d.Spec.Versions[0].Schema.Root
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", d.Spec.Names.Kind, wrapped(sentence(root)))
		for _, half := range []string{"spec", "status"} {
			fmt.Fprintf(&out, "\n| %s | | |\n|---|---|---|\n", half)
			rows(&out, half, root.Properties[half])
		}
	}
	return out.String(), nil
}

// rows are those of the fields below one, depth first.
func rows(out *strings.Builder, path string, s schema) {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { // what is required comes first
		needs := func(name string) int {
			if slices.Contains(s.Required, name) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(needs(a), needs(b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		p := s.Properties[name]
		at := path + "." + name
		shown := "`" + at + "`"
		if slices.Contains(s.Required, name) {
			shown = "**" + shown + "**"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", shown, kindOf(p), cell(sentence(p)))
		switch {
		case strings.HasSuffix(at, ".conditions"): // Kubernetes' own
		case p.Items != nil:
			rows(out, at+"[]", *p.Items)
		default:
			rows(out, at, p)
		}
	}
}

// kindOf says what a field holds.
func kindOf(s schema) string {
	switch {
	case len(s.Enum) > 0:
		var all []string
		for _, e := range s.Enum {
			all = append(all, fmt.Sprintf("`%v`", e))
		}
		return strings.Join(all, ", ")
	case len(s.AnyOf) > 0:
		return "quantity"
	case s.Items != nil:
		return "list of " + kindOf(*s.Items)
	case s.Additional != nil:
		return "map of " + kindOf(*s.Additional)
	case s.Format == "date-time":
		return "time"
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %v to %v", s.Type, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s, %v or more", s.Type, *s.Minimum)
	}
	return s.Type
}

// sentence is the comment of a field, and what is said of a value that is refused.
func sentence(s schema) string {
	words := []string{strings.Join(strings.Fields(s.Description), " ")}
	rules := s.Rules
	if s.Items != nil && s.Items.Properties == nil {
		rules = slices.Concat(rules, s.Items.Rules)
	}
	for _, r := range rules {
		words = append(words, "*"+r.Message+".*")
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// cell is a text in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

// wrapped is a text in lines of 120 columns at most.
func wrapped(text string) string {
	var out strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width == 0:
		case width+1+len(word) > 120:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String()
}
