package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

const (
	fileCommand = "_command.json"
	fileExtra   = "_etcdadm.json" // what the predecessor's format has no place for

	// mostTries bounds the search for a name that is free.
	mostTries = 1000
)

// ErrNoCommand says that there is no command of that name.
var ErrNoCommand = errors.New("no such command")

// RestoreBackup asks for a new generation, made from a backup.
type RestoreBackup struct {
	// Spec is what the restored cluster is to be; the predecessor's ctl
	// writes one only sometimes, so it may be zero.
	Spec   cluster.Spec
	Backup string // its name in the store
	// Lost names hosts that a person has given up, Flags what else was said.
	// They and Count lie in an object of ours beside the command.
	Lost  []cluster.HostID
	Flags []string
	// Count, when given, is the member count that is wanted from then on.
	Count *cluster.CountChange
	// By is who asked, as others may know them. It is told, and nothing hangs on it.
	By string
}

// Command is an entry of the queue.
type Command struct {
	Name      string // of its folder; what delete-command takes
	Timestamp time.Time
	// Restore is the predecessor's kind, Wish any of ours; one of them is set.
	Restore *RestoreBackup
	Wish    *Wish
	// Err says why the command cannot be run. It keeps nothing else from
	// running; the leading daemon rejects it.
	Err error
	// Unread says that the store did not give the command, so that nothing is known of
	// it but its name. It waits, and keeps nothing else from running.
	Unread error
}

type extra struct {
	// Of is the digest of the command that this was said beside; empty: an
	// earlier release wrote it.
	Of    string               `json:"of,omitempty"`
	Lost  []cluster.HostID     `json:"lost,omitempty"`
	Flags []string             `json:"flags,omitempty"`
	Count *cluster.CountChange `json:"count,omitempty"`
	By    string               `json:"by,omitempty"`
}

// commandName is the shape of a command's folder. Other writers' suffixes
// are accepted as long as they cannot lead out of the folder.
var commandName = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z-[0-9A-Za-z]{1,64}$`)

// queue is the inner work of the folder's queue of commands.
type queue struct{ *Folder }

// Commands lists the queue, oldest first by the time in the command, then by
// name. Those that are malformed or cannot be read are listed last, with their Err or
// Unread; only a list that the store does not give is an error. A command that hangs
// takes half of the time that ctx has left.
func (f *Folder) Commands(ctx context.Context) ([]Command, error) {
	infos, err := f.store.List(ctx, Prefix)
	if err != nil {
		return nil, fmt.Errorf("list commands: %w", err)
	}
	has := func(key string) bool {
		return slices.ContainsFunc(infos, func(i blob.Info) bool { return i.Key == key })
	}
	var out []Command
	for _, i := range infos {
		name, ours := commandAt(i.Key)
		if name == "" {
			continue
		}
		read := queue{f}.wish
		if !ours {
			read = func(ctx context.Context, name string) (Command, error) {
				return queue{f}.command(ctx, name, has(Prefix+name+"/"+fileExtra))
			}
		}
		part, cancel := half(ctx)
		c, err := read(part, name)
		cancel()
		switch {
		case errors.Is(err, blob.ErrNotFound):
			continue // deleted since it was listed
		case ctx.Err() != nil:
			return nil, fmt.Errorf("read command %q: %w", name, err)
		case err != nil:
			c = Command{Name: name, Unread: err}
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Command) int {
		if c := cmp.Compare(a.rank(), b.rank()); c != 0 {
			return c
		}
		if c := a.Timestamp.Compare(b.Timestamp); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out, nil
}

// half is ctx with half of the time that it has left.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// rank puts what can be run before what cannot.
func (c Command) rank() int {
	if c.Err != nil || c.Unread != nil {
		return 1
	}
	return 0
}

// ReadCommand reads one command of the queue anew, with what lies beside it.
//
// Errors: ErrNoCommand when it is not in the queue; what the store says.
func (f *Folder) ReadCommand(ctx context.Context, name string) (Command, error) {
	c, err := queue{f}.command(ctx, name, true)
	if errors.Is(err, blob.ErrNotFound) {
		c, err = queue{f}.wish(ctx, name)
	}
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Command{}, fmt.Errorf("read command %q: %w", name, ErrNoCommand)
	case err != nil:
		return Command{}, fmt.Errorf("read command %q: %w", name, err)
	}
	return c, nil
}

// command reads one command. Its error is the store's; what is wrong with the
// command is in it.
func (f queue) command(ctx context.Context, name string, mayHaveExtra bool) (Command, error) {
	c := Command{Name: name}
	data, _, err := blob.ReadAll(ctx, f.store, Prefix+name+"/"+fileCommand, maxObject)
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		c.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return c, nil
	case err != nil:
		return Command{}, err
	}
	if err := parseCommand(data, &c); err != nil {
		c.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		return c, nil
	}
	if !mayHaveExtra {
		return c, nil
	}
	more, _, err := blob.ReadAll(ctx, f.store, Prefix+name+"/"+fileExtra, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return c, nil
	case err != nil:
		return Command{}, err
	}
	var x extra
	if err := parseStrict(more, &x); err != nil {
		c.Err = fmt.Errorf("%w: %s: %w", ErrMalformed, fileExtra, err)
		return c, nil
	}
	if x.Of != "" && x.Of != digest(data) {
		return c, nil // its own command came second to this one, which has nothing beside it
	}
	c.Restore.Lost, c.Restore.Flags, c.Restore.Count = x.Lost, x.Flags, x.Count
	c.Restore.By = x.By
	return c, nil
}

func parseCommand(data []byte, c *Command) error {
	l, err := parseLoose(data)
	if err != nil {
		return err
	}
	ns, err := l.integer("timestamp")
	if err != nil {
		return err
	}
	c.Timestamp = time.Unix(0, ns).UTC()
	o, err := l.object("restoreBackup")
	switch {
	case err != nil:
		return err
	case o == nil:
		return errors.New("it is of no kind that is known: only restoreBackup is")
	}
	r := &RestoreBackup{}
	if r.Backup, err = o.text("backup"); err != nil {
		return err
	}
	if err := checkBackupName(r.Backup); err != nil {
		return err
	}
	s, err := o.object("clusterSpec")
	if err != nil {
		return err
	}
	if s != nil {
		if r.Spec, err = specOf(s); err != nil {
			return fmt.Errorf("clusterSpec: %w", err)
		}
	}
	c.Restore = r
	return nil
}

// checkBackupName refuses a name that is a path: it is joined to the store's
// base, and must not lead out of it.
func checkBackupName(name string) error {
	if name == "" {
		return errors.New("it names no backup")
	}
	if strings.ContainsAny(name, "/\\") || blob.ValidateKey(name) != nil {
		return fmt.Errorf("the backup name %q is not a name as list-backups prints it", name)
	}
	return nil
}

// AddRestore puts a restore command into the queue and returns its name.
// Whether the backup exists is for the caller to check.
func (f *Folder) AddRestore(ctx context.Context, r RestoreBackup) (string, error) {
	if err := checkBackupName(r.Backup); err != nil {
		return "", fmt.Errorf("add command: %w", err)
	}
	at := time.Now().UTC()
	return queue{f}.addCommand(ctx, at, func(dir string) (bool, error) {
		return queue{f}.putRestore(ctx, dir, formatRestore(at, r), r)
	})
}

// AddRestoreOnce is AddRestore under a name of [CommandName]: a command that was added under it already is left as it is, also
// one that ended since. It ages since the time at which its asker said it.
func (f *Folder) AddRestoreOnce(ctx context.Context, name string, since time.Time, r RestoreBackup) error {
	if err := checkBackupName(r.Backup); err != nil {
		return fmt.Errorf("add command: %w", err)
	}
	return queue{f}.addOnce(ctx, name, func(dir string) (bool, error) {
		return queue{f}.putRestore(ctx, dir, formatRestore(since, r), r)
	})
}

// CommandName is the name of the one command that somebody asks for who has an ID of their own, such as a UUID, since a time.
func CommandName(since time.Time, id string) string {
	return since.UTC().Format(time.RFC3339) + "-" + strings.ReplaceAll(id, "-", "")
}

// addOnce writes a command under a name that is its asker's, unless a command of that name is there, was run, or ended.
func (f queue) addOnce(ctx context.Context, name string, put func(dir string) (bool, error)) error {
	if !commandName.MatchString(name) {
		return fmt.Errorf("add command: %q is no name of a command", name)
	}
	ended, err := f.EndedCommands(ctx)
	if err != nil {
		return fmt.Errorf("add command: %w", err)
	}
	in, _, _, err := f.ReadIntent(ctx)
	if err != nil {
		return fmt.Errorf("add command: %w", err)
	}
	if _, told := in.EndOf(name); told || in.Ran(name) || slices.ContainsFunc(ended, func(e Ended) bool { return e.Name == name }) {
		return nil
	}
	if _, err = put(Prefix + name + "/"); err != nil {
		return err
	}
	_, err = f.ReadCommand(ctx, name) // what had the name before may be no command
	return err
}

// addCommand writes a command under a name that no command has or had; put
// tells whether the folder was free. The name is the command's ID, by which
// the intent and the hosts know what they do it for (SAFETY.md, rule 17), and
// one that ended leaves its folder free: so the digits tell the moment, and
// what has ended is looked at.
func (f queue) addCommand(ctx context.Context, at time.Time, put func(dir string) (bool, error)) (string, error) {
	ended, err := f.EndedCommands(ctx)
	if err != nil {
		return "", fmt.Errorf("add command: %w", err)
	}
	for i := range mostTries {
		name := fmt.Sprintf("%s-%06d", at.Format(time.RFC3339), (at.Nanosecond()/int(time.Microsecond)+i)%1_000_000)
		if slices.ContainsFunc(ended, func(e Ended) bool { return e.Name == name }) {
			continue
		}
		dir := Prefix + name + "/"
		there, err := f.store.List(ctx, dir)
		if err != nil {
			return "", fmt.Errorf("add command: %w", err)
		}
		if len(there) > 0 {
			continue
		}
		if ok, err := put(dir); ok || err != nil {
			return name, err
		}
	}
	return "", fmt.Errorf("add command: %d names of this second are taken", mostTries)
}

// putRestore writes a restore command into a folder; false: it was taken. The
// command itself comes last, because it is what a reader looks for.
func (f queue) putRestore(ctx context.Context, dir string, data []byte, r RestoreBackup) (bool, error) {
	extended := len(r.Lost) > 0 || len(r.Flags) > 0 || r.Count != nil || r.By != ""
	if extended {
		more, err := json.Marshal(extra{Of: digest(data), Lost: r.Lost, Flags: r.Flags, Count: r.Count, By: r.By})
		if err != nil {
			return false, fmt.Errorf("add command: %w", err)
		}
		if _, err := f.putOnCondition(ctx, dir+fileExtra, more, blob.IfAbsent); err != nil {
			return taken(err)
		}
	}
	if _, err := f.putOnCondition(ctx, dir+fileCommand, data, blob.IfAbsent); err != nil {
		free, err := taken(err)
		if err == nil && extended { // what was said beside this command is not said beside another's
			err = f.store.Delete(ctx, dir+fileExtra)
		}
		return free, err
	}
	return true, nil
}

// digest tells commands apart that were given one name, between whose writes a
// reader may come, or a writer end.
func digest(command []byte) string {
	sum := sha256.Sum256(command)
	return hex.EncodeToString(sum[:])
}

func taken(err error) (bool, error) {
	if errors.Is(err, blob.ErrPreconditionFailed) {
		return false, nil
	}
	return false, fmt.Errorf("add command: %w", err)
}

// formatRestore writes the keys that the predecessor accepts, and no others.
func formatRestore(at time.Time, r RestoreBackup) []byte {
	type spec struct {
		MemberCount int    `json:"memberCount,omitempty"`
		EtcdVersion string `json:"etcdVersion,omitempty"`
	}
	type restore struct {
		ClusterSpec *spec  `json:"clusterSpec,omitempty"`
		Backup      string `json:"backup"`
	}
	v := struct {
		Timestamp     string  `json:"timestamp"`
		RestoreBackup restore `json:"restoreBackup"`
	}{strconv.FormatInt(at.UnixNano(), 10), restore{Backup: r.Backup}}
	if r.Spec.MemberCount != 0 || !r.Spec.EtcdVersion.IsZero() {
		v.RestoreBackup.ClusterSpec = &spec{r.Spec.MemberCount, r.Spec.EtcdVersion.String()}
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic("strings and numbers have a JSON form: " + err.Error())
	}
	return data
}

// cancelTries bounds how often a cancellation is written anew over what others wrote.
const cancelTries = 10
