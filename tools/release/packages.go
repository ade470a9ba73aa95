package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
	"golang.org/x/sync/errgroup"
)

// ours are the unit, which is the one that internal/unit makes, and the scripts of the packages.
//
//go:embed files
var ours embed.FS

// product is a package, in both formats.
type product struct {
	name, summary, text string
	programs            []string
	service             bool // it has the unit, the scripts, the data directory, completions and the pages
}

var products = []product{
	{
		name: "etcdadm", service: true, programs: []string{"etcdadm"},
		summary: "creates, grows, shrinks and repairs etcd clusters",
		text: `etcdadm makes machines the members of an etcd cluster and keeps it: it replaces
dead members, upgrades etcd, takes backups and restores them. etcd is built in.
Nothing is started by the installation: etcdadm init begins a cluster, and
etcdadm join adds a machine to one.`,
	},
	{
		name: "etcd-manager", programs: hostPrograms[1:],
		summary: "etcdadm's daemon with the flags and files of etcd-manager",
		text: `The daemon that runs one member of an etcd cluster, under the name and with the
flags of etcd-manager, and the tools of its family: etcd-manager-ctl, etcd-backup,
etcd-backup-ctl and etcd-dump. etcd is built in. No unit is installed.`,
	},
}

// pack makes the packages.
func (r *release) pack(context.Context) error {
	scripts := filepath.Join(r.work, "files")
	if err := os.CopyFS(r.work, ours); err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0)) // what takes long is to compress
	for _, arch := range r.arches {
		for _, p := range products {
			for _, packager := range []string{"deb", "rpm"} {
				all.Go(func() error {
					if err := r.packOne(p, arch, packager, scripts); err != nil {
						return fmt.Errorf("%s as %s for %s: %w", p.name, packager, arch, err)
					}
					return nil
				})
			}
		}
	}
	return all.Wait()
}

func (r *release) packOne(p product, arch, packager, scripts string) error {
	contents, err := r.contents(p, arch, packager, scripts)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: p.name, Arch: arch, Platform: "linux", Version: r.version, Release: "1", Section: "admin", Priority: "optional",
		Maintainer: "The etcdadm authors <authors@etcdadm.io>", Vendor: "etcdadm", Homepage: "https://etcdadm.io", License: "Apache-2.0",
		Description: p.summary + "\n" + p.text, MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{Summary: p.summary, BuildHost: "localhost", Compression: "zstd"}},
	})
	if p.service {
		info.Scripts = nfpm.Scripts{
			PostInstall: filepath.Join(scripts, "postinstall.sh"), PreRemove: filepath.Join(scripts, "preremove.sh"), PostRemove: filepath.Join(scripts, "postremove.sh"),
		}
	}
	how, err := nfpm.Get(packager)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, how.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := how.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

// contents are the files of a package. Where nothing else is said they are root's and as old as the release.
func (r *release) contents(p product, arch, packager, scripts string) (files.Contents, error) {
	var all files.Contents
	add := func(source, destination string, mode fs.FileMode) {
		all = append(all, &files.Content{
			Source: source, Destination: destination, Packager: packager,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		})
	}
	for _, program := range p.programs {
		add(filepath.Join(r.bin(arch), program), "/usr/bin/"+program, 0o755)
	}
	docs := "/usr/share/doc/" + p.name
	add(filepath.Join(r.root, "LICENSE"), docs+"/copyright", 0o644)
	add(filepath.Join(r.root, "CHANGELOG.md"), docs+"/CHANGELOG.md", 0o644)
	if !p.service {
		return all, nil
	}
	add(filepath.Join(scripts, "etcdadm.service"), "/usr/lib/systemd/system/etcdadm.service", 0o644)
	for _, c := range completions {
		if c.packager == "" || c.packager == packager {
			add(r.completion(c.shell), c.path, 0o644)
		}
	}
	manual, err := os.ReadDir(r.manual())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, page := range manual { // such as etcdadm-init.8.gz
		section := strings.TrimPrefix(path.Ext(strings.TrimSuffix(page.Name(), ".gz")), ".")
		add(filepath.Join(r.manual(), page.Name()), "/usr/share/man/man"+section+"/"+page.Name(), 0o644)
	}
	// The unit lets the agent write there, which takes that it is there.
	all = append(all, &files.Content{
		Destination: "/var/lib/etcdadm", Type: files.TypeDir, Packager: packager,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o700, MTime: r.time},
	})
	add(filepath.Join(r.root, "README.md"), docs+"/README.md", 0o644)
	pages, err := pagesBelow(filepath.Join(r.root, "docs"))
	for _, page := range pages { // blockers name them as docs/operations/…
		add(filepath.Join(r.root, "docs", page), path.Join(docs, "docs", page), 0o644)
	}
	return all, err
}

// pagesBelow are the pages below a directory, with slashes.
func pagesBelow(dir string) (pages []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	return pages, err
}
