package removal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/setup"
)

// guardName is where init --adopt and join --adopt leave a file in place of the data of the etcd that was taken over.
const guardName = "member"

// guarded tells whether such a file keeps another etcd from starting in a directory. It stays: on an empty directory that etcd
// would start with the ID of its member, and without what that had acknowledged.
func guarded(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, guardName))
	return err == nil && info.Mode().IsRegular()
}

// moveFromGuard moves all that is in a directory to another one of the same file system, except the guard.
func moveFromGuard(dir, to string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(to, modeAside); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == guardName || e.Name() == "lost+found" || strings.HasPrefix(e.Name(), setup.AsidePrefix) {
			continue
		}
		if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncDir(to), durable.SyncDir(dir))
}

// ofTakeover is what stays of the etcd whose member was taken over into a data directory: its guard, and what ran it.
func (h *Host) ofTakeover(dataDir string) (stays []Stays) {
	text, err := regular.Read(filepath.Join(dataDir, "adopted-settings.json"), regular.SmallSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, dir := range []string{dataDir, filepath.Join("/", h.Paths.Root, "var/lib/etcd")} {
		if path := filepath.Join(dir, guardName); guarded(dir) && (len(stays) == 0 || stays[0].Path != path) {
			stays = append(stays, Stays{path, "it keeps the etcd that was taken over from starting without its data; delete it once nothing would start that"})
		}
	}
	var ran struct{ Unit, Manifest string }
	if err != nil || json.Unmarshal(text, &ran) != nil {
		return append(stays, Stays{"what ran the etcd that was taken over", "which that is cannot be read"})
	}
	if ran.Unit != "" {
		stays = append(stays, Stays{ran.Unit, "it ran the etcd that was taken over; it is disabled, unless that was interrupted before the etcd ended"})
	}
	if m := ran.Manifest; m != "" { // moved out of the kubelet's directory
		ext := filepath.Ext(m)
		aside := filepath.Join(filepath.Dir(filepath.Dir(m)), strings.TrimSuffix(filepath.Base(m), ext)+".before-etcdadm"+ext)
		if there(aside) {
			stays = append(stays, Stays{aside, "the manifest of the etcd that was taken over"})
		}
	}
	return stays
}
