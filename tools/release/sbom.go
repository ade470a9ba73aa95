package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the bill of materials: each program of the release, the modules that the Go linker says are in it,
// and the standard library. What is in a package or an image is one of these programs.
func (r *release) writeSBOM(context.Context) error {
	var binaries []binary
	for _, arch := range r.arches {
		for _, p := range programs {
			binaries = append(binaries, binary{name: "bin/linux-" + arch + "/" + p, path: filepath.Join(r.bin(arch), p), version: r.version})
		}
		binaries = append(binaries, binary{name: "image/linux-" + arch + "/go-runner", path: r.runner(arch), version: r.version})
		etcds, err := etcdReleases(r.etcd, arch)
		if err != nil {
			return err
		}
		for _, e := range etcds {
			for _, p := range e.programs {
				binaries = append(binaries, binary{name: "image/linux-" + arch + "/etcd-v" + e.version + "/" + p, path: filepath.Join(e.dir, p), version: e.version})
			}
		}
	}
	bom, err := materials(binaries, r.version, r.time)
	if err != nil {
		return err
	}
	data, err := encode(bom)
	if err != nil {
		return err
	}
	// A number of its own that says the same of the same content, as the format wants one (RFC 4122, 4.3).
	sum := sha256.Sum256(data)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	if data, err = encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "etcdadm-"+r.version+".cdx.json"), data, 0o644)
}

func encode(bom *cdx.BOM) ([]byte, error) {
	var b bytes.Buffer
	err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return b.Bytes(), err
}

// binary is a program that was built by Go.
type binary struct{ name, path, version string }

// materials is the bill of these programs.
func materials(binaries []binary, version string, at time.Time) (*cdx.BOM, error) {
	bom := cdx.NewBOM()
	const whole = "etcdadm"
	bom.Metadata = &cdx.Metadata{
		Timestamp: at.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: whole, Type: cdx.ComponentTypeApplication, Name: "etcdadm", Version: version, PackageURL: "pkg:golang/etcdadm.io@v" + version},
	}
	modules := make(map[string]cdx.Component)
	dependencies := []cdx.Dependency{{Ref: whole, Dependencies: &[]string{}}}
	var components []cdx.Component
	for _, b := range binaries {
		component, of, err := b.component()
		if err != nil {
			return nil, err
		}
		components = append(components, component)
		for _, m := range of {
			modules[m.BOMRef] = m
		}
		refs := slices.Sorted(maps.Keys(byRef(of)))
		*dependencies[0].Dependencies = append(*dependencies[0].Dependencies, component.BOMRef)
		dependencies = append(dependencies, cdx.Dependency{Ref: component.BOMRef, Dependencies: &refs})
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom, nil
}

func byRef(components []cdx.Component) map[string]bool {
	refs := make(map[string]bool)
	for _, c := range components {
		refs[c.BOMRef] = true
	}
	return refs
}

// component is the program, and what is in it.
func (b binary) component() (cdx.Component, []cdx.Component, error) {
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return cdx.Component{}, nil, fmt.Errorf("read how %s was built: %w", b.path, err)
	}
	sum, err := sha256Of(b.path)
	if err != nil {
		return cdx.Component{}, nil, err
	}
	in := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		used := m
		switch {
		case m.Replace != nil && (m.Replace.Version == "" || m.Replace.Version == "(devel)"): // a directory of the checkout
			used = &debug.Module{Path: m.Path, Version: "v" + b.version}
		case m.Replace != nil:
			used = m.Replace
		}
		in = append(in, module(used.Path, cmp.Or(used.Version, "(devel)"), used.Sum))
	}
	c := cdx.Component{
		BOMRef: b.name, Type: cdx.ComponentTypeApplication, Name: b.name, Version: b.version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Properties: &[]cdx.Property{{Name: "go:package", Value: info.Path}},
	}
	for _, s := range info.Settings {
		if s.Key == "GOARCH" || s.Key == "vcs.revision" || s.Key == "vcs.modified" {
			*c.Properties = append(*c.Properties, cdx.Property{Name: "go:" + s.Key, Value: s.Value})
		}
	}
	return c, in, nil
}

// module is one that is linked in. Its sum is that of go.sum, which is not one of a file.
func module(path, version, sum string) cdx.Component {
	at := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cdx.Component{BOMRef: at, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: at}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
