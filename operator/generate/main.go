// Command generate writes what is made of the operator's types and manifests: the templates of the Helm chart, and the table
// of fields in the documents. What it writes is committed, and tests compare it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run .

// crds are the kinds of the API, in the order in which people meet them.
var crds = []string{"etcdclusters", "etcdbackups", "etcdbackupschedules", "etcdrestores"}

func main() {
	made, err := files("..")
	for name, text := range made {
		if err == nil {
			err = os.WriteFile(filepath.Join("..", name), []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// files are all that is made, by their paths below the operator's directory.
func files(dir string) (map[string]string, error) {
	made, err := chart(dir)
	if err != nil {
		return nil, err
	}
	made["../docs/operator/fields.md"], err = fields(dir)
	return made, err
}
