package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What is made is what is committed.
func TestGenerated(t *testing.T) {
	made, err := files("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		if is, err := os.ReadFile(filepath.Join("..", name)); err != nil || string(is) != want {
			t.Errorf("%s is not what the types and manifests say: run go generate ./... in operator (%v)", name, err)
		}
	}
	templates, err := filepath.Glob("../chart/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range templates {
		if name := "chart/templates/" + filepath.Base(at); made[name] == "" {
			t.Errorf("%s is made of nothing: the chart has what kustomize applies, and no more", name)
		}
	}
}
