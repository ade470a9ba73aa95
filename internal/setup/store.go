package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/token"
)

// storeTimeout bounds each look at the store: what is wrong with one is seen within that.
const storeTimeout = 10 * time.Second

// checkStore: it answers, and nobody else has begun a cluster in it.
func (m *Machine) checkStore(ctx context.Context, o Init, s Settings) Check {
	const name = "store"
	if _, ok := kept.DataDir(o.Store); ok {
		return good(name, "none: the hosts of the cluster keep its record and its backups")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Environment(); err != nil {
		return refuse(name, "", "%v", err)
	}
	store, err := open.Open(ctx, o.Store, open.Options{ReadOnly: true})
	if err != nil && o.CreateStore && errors.Is(err, file.ErrNoDirectory) {
		return good(name, "its directory will be made")
	}
	if err != nil {
		return refuse(name, storeRemedy(err), "%v", err)
	}
	folder := control.New(store, o.Cluster)
	mine := ""
	if all, err := pki.Load(m.Paths.PKI(), time.Now()); err == nil {
		mine = all.Manager.Hash()
	}
	founder, err := folder.Tokens().Founder(ctx)
	if err != nil {
		return refuse(name, storeRemedy(err), "%v", err)
	}
	in, _, _, err := folder.ReadIntent(ctx)
	switch {
	case errors.Is(err, control.ErrOtherCluster):
		return refuse(name, "give this cluster a store of its own, such as another folder", "%v", err)
	case err != nil:
		return refuse(name, storeRemedy(err), "%v", err)
	case founder != "" && founder == mine:
		return good(name, "answers, and this machine has begun a cluster in it")
	case founder != "":
		return refuse(name, joinInstead, "another machine has begun cluster %s in it", o.Cluster)
	case in != nil:
		return refuse(name, "make this machine one of its hosts by hand (docs/operations/install-and-run.md), or give the new cluster a folder of its own", "it belongs to cluster %s, which exists", o.Cluster)
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec != nil {
		return refuse(name, "give the new cluster an empty folder", "it holds a spec already")
	}
	return good(name, "answers, and is empty")
}

const joinInstead = "to make this machine one of its hosts, run on a host of it: etcdadm token create; if that machine never came to run: move control/etcdadm-tokens.json and the spec away in the store"

func storeRemedy(err error) string {
	if errors.Is(err, file.ErrNoDirectory) {
		return "mount the shared directory, or have it made: --create-store"
	}
	if told, ok := errors.AsType[*blob.Error](err); ok && told.Advice != "" {
		return told.Advice
	}
	return "look at the store, its URL and its credentials"
}

// openStore opens the store to write to it.
func openStore(ctx context.Context, s Settings, create bool) (*control.Folder, error) {
	if err := s.Environment(); err != nil {
		return nil, err
	}
	if dir, ok := kept.DataDir(s.Store()); ok {
		store, err := console.OpenKept(dir)
		if err != nil {
			return nil, &Error{Problem: "ask this machine's agent for the cluster's record", Err: err, Advice: "etcdadm info says whether it runs"}
		}
		return control.New(store, s.Cluster()).Known(), nil
	}
	store, err := open.Open(ctx, s.Store(), open.Options{Create: create})
	if err != nil {
		return nil, &Error{Problem: "open the store", Err: err, Advice: storeRemedy(err)}
	}
	folder := control.New(store, s.Cluster())
	if _, err := folder.Probe(ctx); err != nil {
		return nil, &Error{Problem: "try the store out", Err: err, Advice: storeRemedy(err)}
	}
	return folder, nil
}

// OpenFolder opens the control folder of the cluster that this machine is a host of.
func OpenFolder(ctx context.Context, s Settings) (*control.Folder, error) {
	return openStore(ctx, s, false)
}

// seed marks the store as this founder's, and asks for the first member. Where the cluster runs nothing is left to do.
func (m *Machine) seed(ctx context.Context, o Init, s Settings, done *Initialised) error {
	bound := storeTimeout
	if o.FromBackup != "" {
		bound += takeInTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if dir, ok := kept.DataDir(s.Store()); ok {
		return m.foundRecord(ctx, dir, o, s, done)
	}
	folder, err := openStore(ctx, s, o.CreateStore)
	if err != nil {
		return err
	}
	in, _, _, err := folder.ReadIntent(ctx)
	if err != nil {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil && in != nil { // a host of it, by init or by join
		done.Again = true
		return nil
	}
	switch err := folder.Tokens().Found(ctx, done.CAHash, time.Now()); {
	case errors.Is(err, control.ErrTaken):
		return &Error{Problem: "begin cluster " + o.Cluster, Err: err, Advice: joinInstead}
	case err != nil:
		return err
	}
	if err := m.manual(ctx, folder, o, done); err != nil { // before anything by which an agent may begin
		return err
	}
	if o.Existing != nil {
		return o.Existing.Mark(ctx, folder)
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec != nil { // an earlier run wrote it
		return err
	}
	if o.FromBackup != "" { // before the spec, by which an agent may begin
		store, err := open.Open(ctx, s.Store(), open.Options{})
		if err != nil {
			return err
		}
		if err := m.beginWith(ctx, folder, store, o); err != nil {
			return err
		}
		done.begun = true
	}
	_, _, err = folder.AmendSpec(ctx, control.Amend{MemberCount: 1, EtcdVersion: o.Version, Shown: &read})
	return err
}

// manual turns self-management off where that is asked for, unless an earlier run did.
func (m *Machine) manual(ctx context.Context, folder *control.Folder, o Init, done *Initialised) error {
	if !o.Manual {
		return nil
	}
	was, err := folder.ReadManual(ctx)
	done.SelfManagementOff = err == nil || errors.Is(err, control.ErrNoManual)
	if was != nil || !done.SelfManagementOff {
		return err
	}
	return folder.WriteManual(ctx, nil, &cluster.Manual{Since: time.Now().UTC().Truncate(time.Second), By: "etcdadm init on " + o.HostID})
}

// foundRecord makes the record of a cluster without a store, on this machine's disk and before its agent runs: whoever has the
// record has all of it. Where it is there, an earlier run made it, or this machine has joined.
func (m *Machine) foundRecord(ctx context.Context, dataDir string, o Init, s Settings, done *Initialised) error {
	if _, err := ReadSettings(m.Paths); err == nil {
		if _, err := os.Lstat(filepath.Join(dataDir, "etcdadm", keeper.FileName)); errors.Is(err, fs.ErrNotExist) {
			return &Error{Problem: "this machine is a host of a cluster already, and " + dataDir + " has no record of it", Err: ErrSetUp, Advice: "mount its disk; where the data are lost: etcdadm reset --force, then join"}
		}
	}
	err := kept.Found(ctx, dataDir, cluster.HostID(o.HostID), rand.Text, func(ctx context.Context, store blob.Store) error {
		folder := control.New(store, s.Cluster()).Known()
		if err := folder.Tokens().Found(ctx, done.CAHash, time.Now()); err != nil {
			return err
		}
		if err := m.manual(ctx, folder, o, done); err != nil {
			return err
		}
		if o.Existing != nil {
			return o.Existing.Mark(ctx, folder)
		}
		if o.FromBackup != "" {
			own, err := kept.Own(ctx, dataDir)
			if err != nil {
				return err
			}
			if err := m.beginWith(ctx, folder, own, o); err != nil {
				return err
			}
			done.begun = true
		}
		_, _, err := folder.AmendSpec(ctx, control.Amend{MemberCount: 1, EtcdVersion: o.Version})
		return err
	})
	if !errors.Is(err, keeper.ErrOther) {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil {
		done.Again = true
		return nil
	}
	founder, err := kept.Founder(ctx, dataDir, func(ctx context.Context, store blob.Store) (string, error) {
		return control.New(store, s.Cluster()).Known().Tokens().Founder(ctx)
	})
	if err != nil {
		return err
	}
	if founder != done.CAHash {
		return &Error{Problem: fmt.Sprintf("%s holds the record of a cluster with other authorities", dataDir), Err: ErrOther, Advice: setAsideHint}
	}
	return nil
}

// grow asks for as many members as are wanted in the end, once: later counts are a person's.
func (m *Machine) grow(ctx context.Context, o Init, s Settings, done *Initialised) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	folder, err := openStore(ctx, s, false)
	if err != nil {
		return err
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec == nil {
		return err
	}
	done.Members, done.Version = read.Spec.MemberCount, read.Spec.EtcdVersion
	founder, err := folder.Tokens().Founder(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(m.Paths.begun()); err == nil || founder != done.CAHash {
		return nil
	}
	if o.Members != 1 && read.Spec.MemberCount == 1 {
		if _, _, err := folder.AmendSpec(ctx, control.Amend{MemberCount: o.Members, Shown: &read}); err != nil {
			return err
		}
		done.Members = o.Members
	}
	return durable.Replace(m.Paths.begun(), []byte("etcdadm init has begun the cluster here; its member count is changed by etcdadm seed\n"), modePublic)
}

func (m *Machine) firstToken(ctx context.Context, o Init, s Settings, done *Initialised) error {
	made, err := MakeToken(ctx, s, NewToken{Life: o.Life, Description: "made by etcdadm init"})
	if err != nil {
		return err
	}
	done.Token, done.Expires = made.Token.Reveal(), made.Record.Expires
	return nil
}

// NewToken is what a join token is to be.
type NewToken struct {
	Life        time.Duration // 0: token.DefaultLife
	Uses        int           // 0: any number
	Description string
	LeafOnly    bool   // who joins gets no authority's key
	Host        string // the only host that may join by it; empty: any
}

// MadeToken is a join token and its record.
type MadeToken struct {
	Token  token.Token
	Record token.Record
}

// MakeToken makes a join token and keeps its record in the store.
//
// Errors: pki.ErrNoKey where this host holds no authorities' keys; control.ErrTokensFull; control.ErrConflict; what the
// store says.
func MakeToken(ctx context.Context, s Settings, n NewToken) (MadeToken, error) {
	authority, err := pki.LoadAuthority(s.PKI(Paths{}), pki.ManagerCA, time.Now())
	if err != nil {
		return MadeToken{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	folder, err := openStore(ctx, s, false)
	if err != nil {
		return MadeToken{}, err
	}
	made, err := token.Mint(rand.Reader)
	if err != nil {
		return MadeToken{}, err
	}
	if n.Life == 0 {
		n.Life = token.DefaultLife
	}
	now := time.Now().UTC().Truncate(time.Second)
	r := token.Record{
		ID: made.ID, Hash: made.Hash(), Created: now, Expires: now.Add(n.Life), Uses: n.Uses, Description: n.Description,
		LeafOnly: n.LeafOnly, Host: n.Host,
	}
	if r.Seal, err = authority.Seal(r.Statement(s.Cluster())); err != nil {
		return MadeToken{}, &Error{Problem: "this host cannot make join tokens", Err: err, Advice: "run it on a host that holds the authorities' keys: etcdadm status names them"}
	}
	return MadeToken{made, r}, folder.Tokens().Add(ctx, r)
}
