package cli

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"etcdadm.io/backup"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/snapshot"
	"github.com/spf13/cobra"
)

// dump writes the keys and values of a snapshot.
type dump struct {
	prefix   string
	keysOnly bool
	packed   bool // into an archive, whatever the file is called
	// unchecked: what can be read of a file is told though it is not what etcd sent,
	// or was checked just now.
	unchecked bool
	out       string // a file that is not there yet; empty: standard output. *.tar.gz: an archive
}

func dumpCommand() *cobra.Command {
	var d dump
	c := &cobra.Command{
		Use: "dump FILE", Short: "Write the keys and values of a snapshot as lines of JSON, or into a tar.gz",
		Long: `dump prints every key and value at the snapshot's newest revision, one JSON object a
line; keys and values that are not text come as key64 and value64, in base64. With
--out NAME.tar.gz each key becomes a file, named by the key and its revision. Memory
use does not grow with the snapshot. A snapshot whose SHA-256 does not match is
refused.`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return tells(c, func(ctx context.Context) error { return d.run(ctx, args[0], c.OutOrStdout()) })
		},
	}
	c.Flags().StringVar(&d.prefix, "prefix", "", "only keys that begin so")
	c.Flags().BoolVar(&d.keysOnly, "keys-only", false, "no values")
	c.Flags().BoolVar(&d.unchecked, "unchecked", false, "also of a snapshot that does not agree with its SHA-256, as far as it can be read")
	c.Flags().StringVar(&d.out, "out", "", "file to make; with .tar.gz at its end an archive. The default is standard output")
	return c
}

const dumpUsage = `etcd-dump writes the keys and values of a backup.

  etcd-dump [flags] FILE                                a snapshot in a file
  etcd-dump --backup-store=URL [flags] BACKUP           a backup in a store
  etcd-dump --data-dir=URL/BACKUP [--out=FILE.tar.gz]   the same, as its users know it

Flags:
`

// DumpMain is etcd-dump. It returns the exit code.
func DumpMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	const name = "etcd-dump"
	if askedVersion(name, args, daemon.Program{}, stdout) {
		return ExitOK
	}
	var d dump
	var b backups
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&b.store, "backup-store", "", "URL of the backup store that the backup is in")
	fs.StringVar(&b.identity, "identity", "", "file with the secret keys of encrypted backups")
	fs.StringVar(&d.prefix, "prefix", "", "only keys that begin so")
	fs.BoolVar(&d.keysOnly, "keys-only", false, "no values")
	fs.BoolVar(&d.unchecked, "unchecked", false, "also of a snapshot that does not agree with its SHA-256, as far as it can be read")
	fs.StringVar(&d.out, "out", "", "file to make; with .tar.gz at its end an archive. The default is standard output")
	var whole string
	fs.StringVar(&whole, "data-dir", "", "URL of a store, a slash and the name of a backup in it; --out is an archive then")
	ignoreLogging(fs)
	given, warnings, err := parseGoFlags(fs, args, true)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout, dumpUsage, fs)
		return ExitOK
	case err != nil:
		return Report(stderr, name, flagsRefused(err))
	case whole != "" && (b.store != "" || len(given) > 0):
		return Report(stderr, name, usage("see --help", "--data-dir already names store and backup; remove the other names"))
	case whole != "":
		d.packed = true
		var word string
		if b.store, word, err = splitBackupURL(whole); err != nil {
			return Report(stderr, name, err)
		}
		given = []string{word}
	case len(given) != 1:
		return Report(stderr, name, usage("see --help", "name one file, or with --backup-store one backup"))
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	ctx, end := working(ctx, stderr, name)
	defer end()
	if b.store == "" {
		return Report(stderr, name, d.run(ctx, given[0], stdout))
	}
	return Report(stderr, name, b.dump(ctx, d, given[0], stdout))
}

// splitBackupURL parts a store from the backup in it. A plain path is taken as
// a file store's.
func splitBackupURL(whole string) (store, name string, err error) {
	whole = strings.TrimRight(whole, "/")
	i := strings.LastIndexByte(whole, '/')
	if i <= 0 || strings.HasSuffix(whole[:i], "/") {
		return "", "", usage("such as --data-dir=file:///var/backups/etcd/2026-11-20T23:08:18Z-000005", "--data-dir does not name a store and a backup in it")
	}
	if store = whole[:i]; strings.HasPrefix(store, "/") {
		store = "file://" + store
	}
	return store, whole[i+1:], nil
}

// dump downloads a backup into a file of its own for the time of a dump.
func (b *backups) dump(ctx context.Context, d dump, word string, out io.Writer) error {
	name, err := backup.ParseName(word)
	if err != nil {
		return usage("etcdadm backup list prints the names", "%w", err)
	}
	c, err := b.catalogue(ctx)
	if err != nil {
		return err
	}
	ids, err := b.identities(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "etcd-dump-") // $TMPDIR names another disk
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "snapshot.db")
	if _, err := c.Download(ctx, name, file, ids, nil); err != nil {
		return noBackup(err)
	}
	d.unchecked = true // the download was
	return d.run(ctx, file, out)
}

// checked holds a snapshot against its SHA-256 before anything of it is told. A
// database of a data directory has none, and is dumped as it is.
func checked(ctx context.Context, file string) error {
	_, err := snapshot.VerifyHash(ctx, file)
	switch {
	case errors.As(err, new(*snapshot.PackedError)): // its end says nothing before it is unpacked
		return packedFailure(err)
	case errors.Is(err, snapshot.ErrNoHash):
		return nil
	case errors.Is(err, snapshot.ErrDamaged):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "do not rely on it; etcdadm backup list shows others. --unchecked writes what can still be read of it"}
	}
	return err
}

func (d *dump) run(ctx context.Context, file string, stdout io.Writer) error {
	if !d.unchecked {
		if err := checked(ctx, file); err != nil {
			return err
		}
	}
	if d.out == "" {
		w := bufio.NewWriterSize(stdout, 64<<10)
		return errors.Join(d.lines(ctx, file, w), w.Flush())
	}
	f, err := os.OpenFile(d.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // values may be secrets
	if err != nil {
		return usage("name a file that does not exist", "%w", err)
	}
	defer f.Close()
	write := d.lines
	if d.packed || strings.HasSuffix(d.out, ".tar.gz") || strings.HasSuffix(d.out, ".tgz") {
		write = d.archive
	}
	w := bufio.NewWriterSize(f, 64<<10)
	if err := errors.Join(write(ctx, file, w), w.Flush(), f.Close()); err != nil {
		_ = os.Remove(d.out) // half of one would look like all
		return err
	}
	return nil
}

// dumpedKey is a line.
type dumpedKey struct {
	Key     *string `json:"key,omitempty"`
	Key64   []byte  `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 []byte  `json:"value64,omitempty"`
	Create  int64   `json:"createRevision"`
	Mod     int64   `json:"modRevision"`
	Version int64   `json:"version"`
	Lease   string  `json:"lease,omitempty"` // hexadecimal, as etcdctl prints it
}

func (d *dump) each(ctx context.Context, file string, visit func(snapshot.KeyValue) error) error {
	prefix := []byte(d.prefix)
	err := snapshot.Dump(ctx, file, func(kv snapshot.KeyValue) error {
		if !bytes.HasPrefix(kv.Key, prefix) {
			return nil
		}
		if d.keysOnly {
			kv.Value = nil
		}
		return visit(kv)
	})
	switch {
	case errors.As(err, new(*snapshot.PackedError)):
		return packedFailure(err)
	case errors.Is(err, snapshot.ErrDamaged):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "etcdadm snapshot status FILE checks all of it"}
	}
	return err
}

func (d *dump) lines(ctx context.Context, file string, w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return d.each(ctx, file, func(kv snapshot.KeyValue) error {
		l := dumpedKey{Create: kv.CreateRevision, Mod: kv.ModRevision, Version: kv.Version}
		l.Key, l.Key64 = textOr64(kv.Key)
		if !d.keysOnly {
			l.Value, l.Value64 = textOr64(kv.Value)
		}
		if kv.Lease != 0 {
			l.Lease = fmt.Sprintf("%016x", uint64(kv.Lease))
		}
		return e.Encode(l)
	})
}

func textOr64(b []byte) (*string, []byte) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	return nil, b
}

func (d *dump) archive(ctx context.Context, file string, w io.Writer) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	at := time.Now().Truncate(time.Second)
	if info, err := os.Stat(file); err == nil {
		at = info.ModTime().Truncate(time.Second)
	}
	err := d.each(ctx, file, func(kv snapshot.KeyValue) error {
		name := fmt.Sprintf("%s@%d", pathOf(kv.Key), kv.ModRevision)
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(kv.Value)), Mode: 0o600, ModTime: at}); err != nil {
			return err
		}
		_, err := t.Write(kv.Value)
		return err
	})
	return errors.Join(err, t.Close(), z.Close())
}

// pathOf makes a path of a key, each of another one, and none that leads out of
// where it is unpacked: what is not a letter, a digit or one of -._~:, and the
// names . and .., are written as %XX; nothing between two slashes is "_", and
// "_" itself %5F. The @ before the revision is in no such name, so no file has
// the name of a directory.
func pathOf(key []byte) string {
	segments := strings.Split(string(key), "/")
	for i, s := range segments {
		switch s {
		case "":
			segments[i] = "_"
		case ".", "..":
			segments[i] = strings.ReplaceAll(s, ".", "%2E")
		case "_":
			segments[i] = "%5F"
		default:
			segments[i] = escaped(s)
		}
	}
	return strings.Join(segments, "/")
}

func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~:", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
