package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/control"
)

// What scripts around the predecessor's ctl read, in its words: protobuf's text
// form of its messages, on one line. Fields that are zero are left out, as
// protobuf does.

// specText is a spec as get and configure-cluster print it.
func specText(s cluster.Spec) string {
	var fields []string
	if s.MemberCount != 0 {
		fields = append(fields, fmt.Sprintf("member_count:%d", s.MemberCount))
	}
	if !s.EtcdVersion.IsZero() {
		fields = append(fields, fmt.Sprintf("etcd_version:%q", s.EtcdVersion))
	}
	return strings.Join(fields, " ")
}

// commandText is a command as list-commands prints it, in the older text form
// with a space behind each message, also the last; empty for a command that
// the predecessor does not have.
func commandText(c control.Command) string {
	if c.Err != nil || c.Restore == nil {
		return ""
	}
	var b strings.Builder
	if ns := timestampOf(c); ns != 0 {
		fmt.Fprintf(&b, "timestamp:%d ", ns)
	}
	b.WriteString("restore_backup:<")
	if spec := specText(c.Restore.Spec); spec != "" {
		fmt.Fprintf(&b, "cluster_spec:<%s > ", spec)
	}
	fmt.Fprintf(&b, "backup:%q > ", c.Restore.Backup)
	return b.String()
}

// timestampOf is a command's time in nanoseconds since 1970, as it stands in
// its file.
func timestampOf(c control.Command) int64 { return c.Timestamp.UnixNano() }

// deleteCommand takes commands out of the queue: the one of that name, or else
// all restores of a backup of that name, or with that timestamp. The
// predecessor's users say the backup, some of its releases want the timestamp.
func (c *ctl) deleteCommand(ctx context.Context, f *control.Folder, words []string, out io.Writer) error {
	if len(words) != 1 {
		return usage("list-commands prints the queue", "delete-command takes the name of one backup, or one command")
	}
	names, err := commandsOf(ctx, f, words[0])
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return &Failure{Code: ExitError, Err: fmt.Errorf("delete command %q: %w", words[0], control.ErrNoCommand), Advice: "list-commands --all prints the names, and the backups that they restore"}
	}
	for _, name := range names {
		if err := f.DeleteCommand(ctx, name); err != nil {
			return err
		}
		fmt.Fprintf(out, "deleted command %s%s\n", name, tooLate(ctx, f, name))
	}
	return nil
}

// tooLate says of a command that was deleted that it was run before; empty: it was not, as
// far as the record can be read.
func tooLate(ctx context.Context, f *control.Folder, name string) string {
	in, _, _, err := f.ReadIntent(ctx)
	switch {
	case err != nil && !errors.Is(err, control.ErrOtherCluster), !in.Ran(name):
		return ""
	case in.CommandID == name:
		return fmt.Sprintf(", too late to stop it: generation %d was written down for it", in.Generation)
	}
	return ", which was run before"
}

// commandsOf names the commands that a word means.
func commandsOf(ctx context.Context, f *control.Folder, word string) (names []string, err error) {
	commands, err := f.Commands(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the commands: %w", err)
	}
	for _, c := range commands {
		if c.Name == word {
			return []string{word}, nil
		}
		if c.Restore != nil && (c.Restore.Backup == word || strconv.FormatInt(timestampOf(c), 10) == word) {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// restoredSpec is what a restore says of the cluster that it makes.
func restoredSpec(ctx context.Context, f *control.Folder, b backupstore.Backup) (cluster.Spec, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return control.RestoredSpec(ctx, f, b.Meta)
}

// insteadOfPath says which name somebody means who wrote a path or a URL.
func insteadOfPath(word string, err error) error {
	if !errors.Is(err, backup.ErrName) {
		return err
	}
	for part := range strings.SplitSeq(word, "/") {
		if name, ok := backup.ParseName(part); ok == nil {
			return usage("write restore-backup "+name.String()+", with --backup-store naming the store", "%w", err)
		}
	}
	return err
}
