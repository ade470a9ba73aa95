package removal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
)

// job is a reset that was begun, durable before its first step. It holds no secret.
type job struct {
	Format  int            `json:"format"`
	Stamp   string         `json:"stamp"` // in the names of what is set aside
	Cluster string         `json:"cluster,omitempty"`
	Host    cluster.HostID `json:"host,omitempty"`
	DataDir string         `json:"dataDir,omitempty"`
	Purge   bool           `json:"purge,omitempty"`
	Items   []Item         `json:"items"`
	// Others are the daemons of the other hosts, as they were before this one went.
	Others []cluster.Contact `json:"others,omitempty"`
	// Lift: the spec is put on hold for this reset, and has to be let go. Else a person had put it on hold before.
	Lift bool `json:"lift,omitempty"`
	// Destroys: destroy began it, of the whole cluster.
	Destroys bool `json:"destroys,omitempty"`
	// Gone: the cluster has no member here any more, or a person has forced the rest.
	Gone bool `json:"gone,omitempty"`
	// Forced: the cluster did not let the member go.
	Forced bool `json:"forced,omitempty"`
	// Told: the other hosts know.
	Told bool `json:"told,omitempty"`
	// Backup is the last one, of a cluster that is destroyed, and Store the URL of where it lies, without credentials.
	Backup string `json:"backup,omitempty"`
	Store  string `json:"store,omitempty"`
	// Here says that this host's disk has a verified copy of that backup, of a cluster without a store.
	Here bool `json:"here,omitempty"`
	// Left is what stays behind in the cluster.
	Left []Left `json:"left,omitempty"`
	// Unreadable is why the settings say nothing.
	Unreadable string `json:"unreadable,omitempty"`
}

const (
	jobFormat = 1
	modeJob   = 0o600
	modeDir   = 0o755
	modeAside = 0o700
)

// readJob is a reset that was begun here; nil: none was.
func (h *Host) readJob() (*job, error) {
	path := h.Paths.Reset()
	data, err := regular.Read(path, regular.SmallSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Problem: "read how far a reset came", Err: err, Advice: "run it as root"}
	}
	var j job
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, &Error{Problem: "read how far a reset came", Err: fmt.Errorf("%s: %w", path, err), Advice: "move it away, and run the command again: then it begins anew"}
	}
	if j.Format != jobFormat {
		return nil, &Error{Problem: fmt.Sprintf("%s is of format %d, and this release reads %d", path, j.Format, jobFormat), Advice: "use the release of etcdadm that began it"}
	}
	return &j, nil
}

func (h *Host) saveJob(j *job) error {
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	path := h.Paths.Reset()
	if err := durable.MakeDir(filepath.Dir(path), modeDir); err != nil {
		return &Error{Problem: "make " + filepath.Dir(path), Err: err}
	}
	if err := durable.Replace(path, append(data, '\n'), modeJob); err != nil {
		return &Error{Problem: "write " + path, Err: err}
	}
	return nil
}
