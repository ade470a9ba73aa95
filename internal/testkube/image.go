package testkube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// WriteImage writes an image that has one program, at a path, and nothing else, in the format that "ctr images import"
// takes.
func WriteImage(file, name, program, at string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, member{strings.TrimPrefix(at, "/"), data, 0o755}); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS, "config": map[string]any{"Entrypoint": []string{at}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	return writeTar(f, member{"config.json", config, 0o644}, member{"layer.tar", layer.Bytes(), 0o644}, member{"manifest.json", manifest, 0o644})
}

// member is a file of an archive.
type member struct {
	name string
	data []byte
	mode int64
}

func writeTar(w io.Writer, files ...member) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}
