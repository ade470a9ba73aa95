package record

import "etcdadm.io/cluster"

// Rotation is the last rotation of the authorities, by the record that this host keeps; nil: none. It is not to be changed.
func (m *Memory) Rotation() *cluster.Rotation {
	if in := m.keeper.Now().Intent; in != nil {
		return in.Rotation
	}
	return nil
}
