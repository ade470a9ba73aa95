package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// Told is what the leading daemon told last.
type Told struct {
	control.Status
	// Hosts are those that it heard at its last look; nil: it did not say.
	Hosts []Heard `json:"hosts"`
	// Proven is the newest backup that was found good.
	Proven *cluster.Backup `json:"proven"`
}

// Heard is a host that was heard.
type Heard struct {
	Host cluster.HostID `json:"host"`
	// Data is what its daemon said lies on the disk: none, member, removed or other.
	Data string `json:"data"`
}

// What may lie on the disk of a host.
const (
	DataNone    = "none"
	DataMember  = "member"  // that the host carries
	DataRemoved = "removed" // nothing but members that a quorum of their own cluster removed
)

// keyStatus is the object that it lies in.
const keyStatus = "control/etcdadm-status.json"

// ReadTold reads what was told last; nil: nothing yet.
func (v *View) ReadTold(ctx context.Context) (*Told, error) {
	data, _, err := blob.ReadAll(ctx, v, keyStatus, 1<<20)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	told := new(Told)
	if err == nil {
		err = json.Unmarshal(data, told)
	}
	if err != nil {
		return nil, fmt.Errorf("read what the daemons told: %w", err)
	}
	return told, nil
}
