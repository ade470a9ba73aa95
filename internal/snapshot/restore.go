package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/release"
)

const (
	// restoredMark lies in etcd's member directory, which etcd does not mind,
	// and says which restore the directory came from.
	restoredMark = "etcdadm-restored.json"
	// siteSuffix names the building site of a data directory.
	siteSuffix = ".restoring"
	// spareSpace is what a restored directory takes beside the database: the
	// first file of the log and some air.
	spareSpace = 128 << 20
	// progressEvery is how often the caller is told how far it is.
	progressEvery = 500 * time.Millisecond
)

// ErrExists says that something is where a result should go.
var ErrExists = errors.New("it exists already")

// ErrIdentity says that the restored member is not the one that was expected.
var ErrIdentity = errors.New("the restored member has another identity than expected")

// RestoreOptions say what a restore makes of a snapshot.
type RestoreOptions struct {
	Snapshot string // the file; its SHA-256 is at its end
	// Verified is the SHA-256 (hexadecimal) that the caller has computed over
	// this very file. If it is empty the file is read and checked here.
	Verified string
	// UseUp lets the file itself become the database, where the release's tool
	// does not insist on a copy. Then it is gone afterwards, also after an error.
	// It has to be on the disk of DataDir.
	UseUp    bool
	DataDir  string          // to be made; its parent is there and nothing has its name
	Release  release.Release // of the version that wrote the backup
	Name     string          // of the one founding voter
	PeerURLs []string        // spelled as etcd will be told
	Token    string          // of the new generation
	Revision int64           // to reach at least; 0: leave the snapshot's
	Above    int64           // and to be above the snapshot's at least
	Member   cluster.MemberID
	Cluster  cluster.ClusterID // expected of the result; 0: any
	// Progress is told, maybe from another goroutine, how many bytes there are.
	Progress func(done, total int64) `json:"-"`

	whole bool          // the tool is to see all of the database, whatever its release
	files durable.Files // for tests; nil: this machine's
}

// Restored is what came out.
type Restored struct {
	Member   cluster.MemberID  `json:"member"`
	Cluster  cluster.ClusterID `json:"cluster"`
	From     int64             `json:"from"`     // the snapshot's revision
	Revision int64             `json:"revision"` // of the restored database
	// RevisionsGoBack: clients may have seen higher ones than Revision. No restore of
	// ours does that any more: where the tool cannot raise revisions, we do.
	RevisionsGoBack bool `json:"revisionsGoBack,omitempty"`
	Again           bool `json:"again,omitempty"` // the same restore had been done before
}

// mark is what a restored directory says of itself.
type mark struct {
	SHA256   string   `json:"sha256"`
	Name     string   `json:"name"`
	PeerURLs []string `json:"peerURLs"`
	Token    string   `json:"token"`
	Target   int64    `json:"target,omitempty"` // revision
	Tool     string   `json:"tool"`
	Result   Restored `json:"result"`
}

func (m mark) sameOrder(o mark) bool {
	m.Result, o.Result = Restored{}, Restored{}
	return reflect.DeepEqual(m, o)
}

// Restore makes the data directory of a cluster with one founding voter. It
// can be interrupted at any point, and called again: a second call begins
// anew, or finds the directory finished and says so. A directory that is there
// and came from something else is [ErrExists].
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	r, err := restore(ctx, o)
	if err != nil {
		return Restored{}, fmt.Errorf("restore %s to %s: %w", o.Snapshot, o.DataDir, err)
	}
	return r, nil
}

func restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	tool, err := RestoreTool(o.Release)
	if err != nil {
		return Restored{}, err
	}
	if o.Snapshot, err = filepath.Abs(o.Snapshot); err != nil {
		return Restored{}, err
	}
	if o.DataDir, err = filepath.Abs(o.DataDir); err != nil {
		return Restored{}, err
	}
	if o.Name == "" || o.Token == "" || len(o.PeerURLs) == 0 {
		return Restored{}, errors.New("name, token and peer URLs have to be given")
	}
	sum, size, err := trusted(ctx, o)
	if err != nil {
		return Restored{}, err
	}
	order := mark{
		SHA256: sum, Name: o.Name, PeerURLs: o.PeerURLs, Token: o.Token, Target: o.Revision,
		Tool: tool.Name + " " + tool.Version.String(),
	}
	if done, err := doneBefore(o, order); done != nil || err != nil {
		if err != nil {
			return Restored{}, err
		}
		return *done, clearOld(ctx, o.DataDir+siteSuffix)
	}
	return build(ctx, o, tool, order, size)
}

// trusted gives the hash and the size of the snapshot's database.
func trusted(ctx context.Context, o RestoreOptions) (sum string, size int64, err error) {
	f, err := regular.Open(o.Snapshot)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	size, said, err := trailer(f)
	if err != nil {
		return "", 0, err
	}
	sum = fmt.Sprintf("%x", said)
	if o.Verified == "" {
		_, err = VerifyHash(ctx, o.Snapshot)
	} else if !strings.EqualFold(o.Verified, sum) {
		err = fmt.Errorf("%w: it says that its SHA-256 is %s, and %s was verified", ErrDamaged, sum, o.Verified)
	}
	return sum, size, err
}

// doneBefore looks whether the directory is there. Nil and nil: it is not.
func doneBefore(o RestoreOptions, order mark) (*Restored, error) {
	if _, err := os.Lstat(o.DataDir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(o.DataDir, "member", restoredMark))
	if err != nil {
		return nil, ErrExists
	}
	var was mark
	if json.Unmarshal(content, &was) != nil || !was.sameOrder(order) || was.Result.Revision < was.Result.From+o.Above {
		return nil, fmt.Errorf("%w: it came from another restore", ErrExists)
	}
	was.Result.Again = true
	return &was.Result, was.Result.check(o)
}

// clearOld takes away the site of a restore that died after its last rename.
func clearOld(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, siteMark)); err != nil {
		return nil //nolint:nilerr // no site of ours, so nothing to take away
	}
	s, err := openSite(ctx, dir)
	if err != nil {
		return err
	}
	return s.close()
}

func build(ctx context.Context, o RestoreOptions, tool Tool, order mark, size int64) (done Restored, err error) {
	s, err := openSite(ctx, o.DataDir+siteSuffix)
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// Whoever held the site before us may have finished meanwhile.
	if before, err := doneBefore(o, order); err != nil {
		return Restored{}, err
	} else if before != nil {
		return *before, nil
	}
	o.Progress = told(o.Progress, progress.Begin(ctx, size, progress.Bytes, "restoring %s with %s of etcd %s", o.Snapshot, tool.Name, tool.Version))
	onExcerpt := tool.OnExcerpt() && !o.whole
	need := size + spareSpace
	if onExcerpt && o.UseUp {
		need = spareSpace
	}
	if err := needSpace(s.dir, need); err != nil {
		return Restored{}, err
	}
	h, err := peek(ctx, o.Snapshot)
	if err != nil {
		return Restored{}, err
	}
	data := s.path("data")
	bump := bumpBy(o, tool, h)
	if onExcerpt {
		err = restoreOnExcerpt(ctx, o, s, tool, data, bump, size)
	} else if err = checkListed(ctx, o.Snapshot); err == nil { // the tool writes by the list that it finds
		stop := reportGrowth(filepath.Join(data, "member", "snap", "db"), size, o.Progress)
		err = tool.run(ctx, s, restoreArgs(o, data, bump)...)
		stop()
		if err == nil && tool.below(h) {
			err = unmark(ctx, filepath.Join(data, "member", "snap", "db"))
		}
	}
	if err != nil {
		return Restored{}, err
	}
	reached := max(h.revision, h.counted()+bump)
	if target := o.target(h); target > reached { // the tool cannot
		reached = target
		if err := raise(ctx, databaseOf(data), target); err != nil {
			return Restored{}, fmt.Errorf("raise the revision to %d: %w", target, err)
		}
	}
	if done, err = inspectRestored(ctx, data, reached); err != nil {
		return Restored{}, err
	}
	done.From, done.RevisionsGoBack = h.revision, o.target(h) > done.Revision
	if err := done.check(o); err != nil {
		return Restored{}, err
	}
	order.Result = done
	content, err := json.MarshalIndent(order, "", "  ")
	if err != nil {
		return Restored{}, err
	}
	if err := durable.Replace(filepath.Join(data, "member", restoredMark), content, 0o600); err != nil {
		return Restored{}, err
	}
	progress.Begin(ctx, 0, "", "waiting for the disk to have all of %s", o.DataDir)
	return done, publish(durable.On(o.files), data, o.DataDir)
}

// target is the revision to reach.
func (o RestoreOptions) target(h *header) int64 {
	return max(o.Revision, h.revision+o.Above)
}

// bumpBy is what etcd's flag wants: the difference to the snapshot's revision.
func bumpBy(o RestoreOptions, tool Tool, h *header) int64 {
	if !tool.Bumps() || o.target(h) == h.revision {
		return 0
	}
	return o.target(h) - h.counted()
}

// counted is the revision that the tool counts from: the newest record's, and 0
// without any, also where etcd counts a compaction after it.
func (h *header) counted() int64 { return h.recorded }

func restoreArgs(o RestoreOptions, data string, bump int64) []string {
	urls := make([]string, len(o.PeerURLs))
	for i, u := range o.PeerURLs {
		urls[i] = o.Name + "=" + u
	}
	args := []string{
		"snapshot", "restore", o.Snapshot,
		"--data-dir=" + data,
		"--name=" + o.Name,
		"--initial-cluster=" + strings.Join(urls, ","),
		"--initial-cluster-token=" + o.Token,
		"--initial-advertise-peer-urls=" + strings.Join(o.PeerURLs, ","),
		"--skip-hash-check", // it was checked; a second reading costs as much again
	}
	if bump > 0 {
		args = append(args, "--bump-revision="+strconv.FormatInt(bump, 10), "--mark-compacted")
	}
	return args
}

// told is the function that has both the caller and who hears of the work be told.
func told(caller func(done, total int64), step *progress.Step) func(done, total int64) {
	if step == nil {
		return caller
	}
	return func(done, total int64) {
		step.Set(done)
		if caller != nil {
			caller(done, total)
		}
	}
}

// reportGrowth tells how much of a file is there until the returned function
// is called.
func reportGrowth(path string, total int64, report func(done, total int64)) (stop func()) {
	if report == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if info, err := os.Stat(path); err == nil {
					report(min(info.Size(), total), total)
				}
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		report(total, total)
	}
}

// inspectRestored reads the identity that the tool has given, and sees that
// the revision is the one that was asked for.
func inspectRestored(ctx context.Context, data string, revision int64) (Restored, error) {
	l, err := readLog(filepath.Join(data, "member", "wal"), 0)
	if err != nil {
		return Restored{}, err
	}
	h, err := peek(ctx, filepath.Join(data, "member", "snap", "db"))
	if err != nil {
		return Restored{}, err
	}
	if h.revision != revision {
		return Restored{}, fmt.Errorf("%w: the restored revision is %d, and %d was asked for", ErrDamaged, h.revision, revision)
	}
	return Restored{Member: l.member, Cluster: l.cluster, Revision: h.revision}, nil
}

func (r Restored) check(o RestoreOptions) error {
	if (o.Member == 0 || o.Member == r.Member) && (o.Cluster == 0 || o.Cluster == r.Cluster) {
		return nil
	}
	return fmt.Errorf("%w: member %s of cluster %s, expected was member %s of cluster %s",
		ErrIdentity, r.Member, r.Cluster, o.Member, o.Cluster)
}
