package release

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"etcdadm.io/internal/regular"
)

// programs are what is taken out of a release's archive; the rest is
// documentation.
var programs = []string{"etcd", "etcdctl", "etcdutl"}

// largestProgram bounds what is written for one program; those of 3.7 have
// less than 30 MB.
const largestProgram = 512 << 20

// contentsName is the file beside the programs of a download that has their
// SHA-256, in the manner of sha256sum.
const contentsName = "etcdadm.sha256"

// extract takes the programs out of an archive and writes them into dir, which
// is empty, with their sums. It writes fixed names only, so nothing in the
// archive can lead out of dir: an entry counts if it is a regular file
// <top>/<program>, and all others are passed over.
func extract(archive io.Reader, top, dir string) error {
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	var sums strings.Builder
	var have []string
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		name := path.Base(entry.Name)
		if entry.Name != top+"/"+name || !slices.Contains(programs, name) {
			continue
		}
		if entry.Typeflag != tar.TypeReg || slices.Contains(have, name) || entry.Size > largestProgram {
			return fmt.Errorf("read archive: its %s is no program, or there are two", name)
		}
		sum, err := writeProgram(filepath.Join(dir, name), entries)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		have = append(have, name)
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	// The rest of the stream has its own check sum.
	if _, err := io.Copy(io.Discard, io.LimitReader(unzipped, largestProgram)); err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	if !slices.Contains(have, "etcd") || !slices.Contains(have, "etcdctl") {
		return fmt.Errorf("read archive: it has no %s/etcd and %s/etcdctl", top, top)
	}
	return writeNew(filepath.Join(dir, contentsName), strings.NewReader(sums.String()), 0o644)
}

func writeProgram(path string, from io.Reader) (sum string, err error) {
	hash := sha256.New()
	err = writeNew(path, io.TeeReader(from, hash), 0o755)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// writeNew writes a file that is not there; install syncs it.
func writeNew(path string, from io.Reader, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// contents reads the sums beside downloaded programs; nil when the directory
// was filled by somebody else, who vouches for it.
func contents(dir string) (map[string]string, error) {
	data, err := regular.Read(filepath.Join(dir, contentsName), regular.SmallSize)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return parseSums(string(data)), nil
}

// parseSums reads lines of sha256sum: a sum, space, a name, which may have an
// asterisk before it. Other lines are passed over.
func parseSums(text string) map[string]string {
	sums := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 2 && isSum(fields[0]) {
			sums[strings.TrimPrefix(fields[1], "*")] = strings.ToLower(fields[0])
		}
	}
	return sums
}

func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// sumOf reads a file.
func sumOf(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// ErrAltered says that a program is not the one that was downloaded.
var ErrAltered = errors.New("it is not the file that was downloaded")

// verify holds a downloaded program against the sum that was written with it.
func verify(program string) error {
	sums, err := contents(filepath.Dir(program))
	if err != nil || sums == nil {
		return err
	}
	got, err := sumOf(program)
	if err != nil {
		return err
	}
	if got != sums[filepath.Base(program)] {
		return ErrAltered
	}
	return nil
}
