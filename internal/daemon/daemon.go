package daemon

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/sources"
)

// daemon is one assembled daemon.
type daemon struct {
	cfg      Config
	program  Program
	log      *slog.Logger
	id       cluster.HostID
	urls     cluster.URLs
	certs    *certs
	store    blob.Store // of the control record
	folder   *control.Folder
	backups  blob.Store    // may be the same, or noBackups
	keeping  *keeping.Part // nil: there is a shared store
	moves    moves
	releases *inventory
	etcdEnv  []string
	leftSaid atomic.Pointer[cluster.Version] // the release of which sayLeft spoke
	env      *follower                       // nil: there is no environment file
	disk     *datadir.Dir
	place    string // of the state directory, as this kernel has it
	// experienced: this host has been part of the cluster before.
	experienced bool
	process     *Process
	host        *host.Host
	pool        *peer.Pool
	manager     *manager.Manager
	watch       *watch
	sources     *sources.Sources
	catalogue   *backupstore.Catalogue
	logRoom     logRoom
	rejects     rejects
	words       lastWords
	begun       beginning
	parts       group
}

// Program is what the daemon needs to know of the program that it is in.
type Program struct {
	Build   string           // its version, for people
	Builtin *release.Builtin // the etcd that it carries; nil: none
	// LogDropped counts the lines of the daemon's log that were dropped; nil: none ever is.
	LogDropped func() uint64
	// EtcdLog gets the lines of etcd's log; it never blocks. Nil: they stay in the file alone.
	EtcdLog io.Writer
}

// follower follows the environment file while the daemon runs. The credentials of the store
// are taken anew, once the store answers them, and stay what they were else. All other
// variables are read at the start of the daemon only, and of those that changed a person is
// told. No value is ever told: it may be a secret.
type follower struct {
	path string
	log  *slog.Logger
	// renew has the store opened with the environment that set makes, and tries it out; where it
	// fails what set did is taken back. Nil: the store asks for no credentials.
	renew func(ctx context.Context, set func() (undo func())) error
	// kept is how the daemon is restarted without its etcd.
	kept string

	started map[string]string // by the file at the start of the daemon
	own     map[string]string // what the environment had before, of the names that a file set
	taken   map[string]string // by the file, as the credentials in force have it
	last    map[string]string // by the look before
	tried   time.Time         // when the store did not take those of last
	refusal string            // of that
	kind    error             // of what it was refused for

	mu       sync.Mutex // guards what follows
	problems []cluster.Problem
}
