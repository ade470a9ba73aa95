package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/journal"
)

// Predecessor is as Disk says. etcd-manager leaves its state file behind when it
// stops a member for good, so that the file alone is no sign of one.
func (d *Dir) Predecessor(host cluster.HostID, disk cluster.DiskID) (*record.Predecessor, error) {
	data, err := os.ReadFile(filepath.Join(d.root, filePredecessor))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of etcd-manager: %w", err)
	}
	tokens, err := d.logs()
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	var p record.Predecessor
	p.State, _ = ParsePredecessor(data) // torn or empty: the log says whose it is
	if p.State != nil && slices.Contains(tokens, p.State.Token) {
		tokens = []string{p.State.Token}
	}
	p.Token = tokens[0]
	if len(tokens) > 1 {
		p.Refused, p.Hint = "its data directory holds the logs of several members ("+strings.Join(tokens, ", ")+"), and no readable state file says which is in use", "move the one that is not out of "+filepath.Join(d.root, dirData)
		return &p, nil
	}
	p.Held = d.heldNow(p.Token)
	if p.Cluster, p.Member, err = d.Owner(p.Token); err != nil && p.Held == nil {
		p.Refused, p.Hint = fmt.Sprintf("the head of its log cannot be read: %v", err), "repair the disk, or let the host rejoin with an empty data directory"
	}
	switch _, named := p.State.Node(host); {
	case p.Refused != "":
	case p.State != nil && p.State.Token != p.Token:
		p.Refused, p.Hint = fmt.Sprintf("its state file is of token %s, and the log that is there of %s", p.State.Token, p.Token), "put back the data that belongs to the state file"
	case p.State != nil && !named:
		p.Refused, p.Hint = fmt.Sprintf("its state file does not name host %s among the members", host), "give the daemon the data directory and the ID (myid, --host-id) of one and the same host"
	default:
		p.Refused, p.Hint = d.otherMark(p.Token, disk)
	}
	return &p, nil
}

// HoldsPredecessor reports whether a data directory holds a member of etcd-manager
// that is in no record of ours yet. The caller holds the lock of the state directory.
func HoldsPredecessor(dataDir string) bool {
	d := &Dir{files: durable.OS(), root: dataDir}
	if s, ok, err := d.Load(); err != nil || ok && s.Local.Generation > 0 {
		return false
	}
	p, err := d.Predecessor("", "")
	return err == nil && p != nil
}

func (d *Dir) heldNow(token string) error {
	if d.held == nil {
		return nil
	}
	return d.held(d.DataDir(token))
}

// otherMark: the data was carried by another disk of ours, so what that one knew
// is not on this one.
func (d *Dir) otherMark(token string, disk cluster.DiskID) (refused, hint string) {
	path := filepath.Join(d.root, memberDir(token), fileMark)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ""
	}
	var m mark
	if err == nil && json.Unmarshal(b, &m) == nil && m.Disk == disk && m.Token == token {
		return "", ""
	}
	return "its data was carried by a daemon of ours whose record is not here any more, so that nobody knows whether it is complete",
		"put the directory etcdadm back beside it, or let the host rejoin with an empty data directory"
}

// logs are the tokens whose directories hold a write-ahead log, sorted.
func (d *Dir) logs() (tokens []string, err error) {
	all, err := names(filepath.Join(d.root, dirData))
	if err != nil {
		return nil, fmt.Errorf("list data directories: %w", err)
	}
	for _, name := range all {
		if plainName(name) != nil {
			continue
		}
		_, wal, err := d.Data(name, "")
		if err != nil {
			return nil, err
		}
		if wal {
			tokens = append(tokens, name)
		}
	}
	return tokens, nil
}

// TakeOver is as Disk says.
func (d *Dir) TakeOver(token string, disk cluster.DiskID) error {
	return d.changeData("take over data", token, disk, func(marked, wal bool) error {
		if refused, _ := d.otherMark(token, disk); refused != "" || !wal {
			return fmt.Errorf("%s holds no log, or another disk's mark", d.DataDir(token))
		}
		if marked {
			return nil
		}
		content, err := json.Marshal(mark{Disk: disk, Token: token})
		if err != nil {
			return err
		}
		return d.journal.Run([]journal.Step{{Kind: journal.Write, Path: filepath.Join(memberDir(token), fileMark), Data: content}})
	})
}
