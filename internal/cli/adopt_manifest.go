package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/runtime"
)

// stopLines are how a person stops the etcd that holds the data for good.
func stopLines(held error, manifest string) []string {
	if manifest != "" {
		return []string{moveManifest(manifest)}
	}
	var locked *runtime.LockedError
	if errors.As(held, &locked) && locked.PID != 0 {
		if unit := adoption.UnitOf(locked.PID); unit != "" {
			return []string{"systemctl disable --now " + unit}
		}
	}
	if locked != nil && locked.PID != 0 {
		return []string{fmt.Sprintf("kill %d   # and whatever would start it again", locked.PID)}
	}
	return []string{"end the etcd that runs on it, and whatever would start it again"}
}

// moveManifest is how a person ends a static pod for good. Source: kubelet takes every
// file of the directory whose name does not begin with a dot for a pod.
func moveManifest(path string) string {
	return fmt.Sprintf("mv %s %s   # the kubelet ends the pod", path, filepath.Dir(filepath.Dir(path))+"/")
}
