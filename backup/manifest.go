package backup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"etcdadm.io/cluster"
)

// ManifestFormat is the highest format of a manifest that this release knows.
const ManifestFormat = 2

// ErrNewer says that a manifest is of a format that a later release writes: it
// must not be written over.
var ErrNewer = errors.New("written by a later release")

// Reason is why a backup was made. Others than these may turn up.
type Reason string

// The reasons.
const (
	ReasonPeriodic      Reason = "periodic"       // the schedule asked for it
	ReasonRequested     Reason = "requested"      // a person did
	ReasonBeforeChange  Reason = "before-change"  // before the membership is changed on purpose
	ReasonBeforeVersion Reason = "before-version" // before the version of the cluster changes
	ReasonBeforeRestore Reason = "before-restore" // the last of a generation that another one replaces
	ReasonCopied        Reason = "copied"         // found in another store, of a writer that gave no reason
	ReasonExtracted     Reason = "extracted"      // made of the data of stopped members
)

// Manifest is what is known of a backup beyond its meta. It is written before
// the meta. The one later change is that verifications are added and Pinned is
// set, by a conditional write.
type Manifest struct {
	Format int `json:"format"`

	// Cluster is the cluster's name; ClusterID and MemberID are etcd's, the
	// latter of the member that was read.
	Cluster   string            `json:"cluster,omitempty"`
	ClusterID cluster.ClusterID `json:"clusterID,omitempty"`
	MemberID  cluster.MemberID  `json:"memberID,omitempty"`
	Host      cluster.HostID    `json:"host,omitempty"`
	Reason    Reason            `json:"reason,omitempty"`

	EtcdVersion cluster.Version `json:"etcdVersion,omitzero"`
	// StorageVersion is that of the database's schema, as etcd 3.6 and later say
	// it, such as 3.6.0.
	StorageVersion string   `json:"storageVersion,omitempty"`
	Position       Position `json:"position,omitzero"`
	// Contents is what the snapshot itself holds; zero: not known, and then
	// Position is what it holds at least.
	Contents Contents `json:"contents,omitzero"`

	Snapshot Content `json:"snapshot,omitzero"` // database and trailer, as etcd sent them
	Stored   Content `json:"stored,omitzero"`   // the object in the store
	File     string  `json:"file,omitempty"`    // its name
	Pinned   string  `json:"pinned,omitempty"`  // why it is never to be pruned
	// KeepUntil is when it may be pruned at the earliest, whatever the policy; zero: as that has it.
	KeepUntil time.Time `json:"keepUntil,omitzero"`
	Encoding  Encoding  `json:"encoding,omitzero"`
	// Recipients are the public keys that the snapshot was encrypted to.
	Recipients []string `json:"recipients,omitempty"`

	Started  time.Time     `json:"started,omitzero"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds

	Verifications []Verification `json:"verifications,omitempty"`
}

// Position is how far the member had come just before its snapshot began: the
// snapshot holds at least this.
type Position struct {
	Revision int64  `json:"revision,omitempty"`
	Term     uint64 `json:"term,omitempty"`  // raft's
	Index    uint64 `json:"index,omitempty"` // raft's, applied
	// Keys is how many keys the database holds; nil when nobody counted.
	Keys *int64 `json:"keys,omitempty"`
	// Hash is of all keys up to Revision; nil when nobody asked for it.
	Hash *Hash `json:"hash,omitempty"`
}

// Contents is what a snapshot was found to hold.
type Contents struct {
	// Revision is the highest of a record in the database; zero: not found out.
	Revision int64 `json:"revision,omitempty"`
	// Keys is how many have a value at that revision; nil when nobody counted.
	Keys *int64 `json:"keys,omitempty"`
}

// Hash is etcd's HashKV. Two databases hold the same keys up to Revision if
// their hashes agree; they can be compared only if Compacted is the same.
type Hash struct {
	Hash      uint32 `json:"hash"`
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"`
}

// Content is a sequence of bytes.
type Content struct {
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hexadecimal, lower case
}

// IsZero reports whether nothing is known.
func (c Content) IsZero() bool { return c == Content{} }

// Depth is how much a verification looked at.
type Depth string

// The depths, each of which takes in the ones before.
const (
	// DepthStored: the object in the store has the size and hash of the
	// manifest, which was written over a stream that had been checked. It is as
	// far as a host gets with an encrypted backup.
	DepthStored Depth = "stored"
	// DepthContent: unpacked, and the database agrees with its own checksum.
	DepthContent Depth = "content"
	// DepthDrilled: restored aside, and a member was started with it.
	DepthDrilled Depth = "drilled"
)

// Verification is one look at a backup.
type Verification struct {
	At      time.Time      `json:"at"`
	Host    cluster.HostID `json:"host,omitempty"`
	Depth   Depth          `json:"depth"`
	OK      bool           `json:"ok"`
	Problem string         `json:"problem,omitempty"` // when not OK, a sentence
	// Revision and Keys are what a drill found; the first also what a look at the
	// content did.
	Revision int64         `json:"revision,omitempty"`
	Keys     *int64        `json:"keys,omitempty"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds
}

// mostVerifications is how many a manifest keeps: the newest ones.
const mostVerifications = 20

// Add puts a verification at the end, and drops the oldest beyond a bound.
func (m *Manifest) Add(v Verification) {
	all := append(m.Verifications[:len(m.Verifications):len(m.Verifications)], v)
	m.Verifications = all[max(0, len(all)-mostVerifications):]
}

// Proven reports whether the last verification found the backup good. A backup
// that was only written is not proven.
func (m *Manifest) Proven() bool {
	if m == nil || len(m.Verifications) == 0 {
		return false
	}
	return m.Verifications[len(m.Verifications)-1].OK
}

// Revision is how far the snapshot goes, as far as it is known: exactly, when it
// was found in the snapshot itself, as it was written or looked at since; else it
// is what the snapshot holds at least, or zero. m may be nil.
func (m *Manifest) Revision() (revision int64, exact bool) {
	if m == nil {
		return 0, false
	}
	for i := len(m.Verifications) - 1; i >= 0; i-- {
		if v := &m.Verifications[i]; v.OK && v.Revision > 0 && v.Revision >= m.Position.Revision {
			return v.Revision, true
		}
	}
	if m.Contents.Revision > 0 {
		return m.Contents.Revision, true
	}
	return m.Position.Revision, false
}

// Keys is how many keys have a value; nil: nobody counted. m may be nil.
func (m *Manifest) Keys() *int64 {
	if m == nil {
		return nil
	}
	for i := len(m.Verifications) - 1; i >= 0; i-- {
		if v := &m.Verifications[i]; v.OK && v.Keys != nil && *v.Keys >= 0 {
			return v.Keys
		}
	}
	if m.Contents.Keys != nil {
		return m.Contents.Keys
	}
	return m.Position.Keys
}

// WrittenAs is the format that the manifest is written in: the lowest whose releases keep all that
// it says. One of format 1 writes a manifest anew without KeepUntil, and prunes.
func (m Manifest) WrittenAs() int {
	if m.KeepUntil.IsZero() {
		return 1
	}
	return 2
}

// Encode writes the manifest.
func (m Manifest) Encode() []byte {
	m.Format = m.WrittenAs()
	return format(m)
}

// ParseManifest reads a manifest. Unknown keys are passed over. Errors wrap
// ErrMalformed; for one of a later format also ErrNewer, and then what could be
// read comes with it.
func ParseManifest(data []byte) (Manifest, error) {
	m, err := parseManifest(data)
	if err != nil {
		err = fmt.Errorf("read %s: %w: %w", FileManifest, ErrMalformed, err)
	}
	return m, err
}

func parseManifest(data []byte) (Manifest, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	var m Manifest
	if err := d.Decode(&m); err != nil {
		return Manifest{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("something follows the JSON object")
	}
	if m.Format > ManifestFormat {
		return m, fmt.Errorf("%w: format %d, this release knows %d", ErrNewer, m.Format, ManifestFormat)
	}
	if m.Format < 1 {
		return Manifest{}, errors.New("it has no format")
	}
	return m, m.check()
}

// check refuses what would be acted on and cannot be right. An encoding that is
// not ours names no file, and a file is joined to the backup's folder.
func (m *Manifest) check() error {
	if m.File != "" {
		if e, ok := EncodingOf(m.File); !ok || e != m.Encoding {
			return fmt.Errorf("the file %q is of no encoding that is known, or not of its own", clip(m.File))
		}
	}
	for _, c := range []Content{m.Snapshot, m.Stored} {
		if c.IsZero() {
			continue
		}
		if b, err := hex.DecodeString(c.SHA256); err != nil || len(b) != 32 || hex.EncodeToString(b) != c.SHA256 || c.Size < 0 {
			return fmt.Errorf("size %d with SHA-256 %q is no content", c.Size, clip(c.SHA256))
		}
	}
	return nil
}
