package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/say"
	"etcdadm.io/internal/sources"
	"etcdadm.io/internal/wake"
)

// Coprocess takes backups of an etcd that somebody else runs. One stands beside
// each member; the one whose member is raft's leader acts, so that there is one
// backup an interval, whoever leads.
type Coprocess struct {
	ClusterName  string
	BackupStore  string   // URL
	ClientURLs   []string // of one member
	Etcd         console.EtcdAccess
	User         string // with PasswordFile, for an etcd with auth on and no certificate that says who we are
	PasswordFile string
	Interval     time.Duration
	Backups      backupstore.Choices
	// Once: take one backup now, whoever leads and however old the last one is.
	Once bool
}

const (
	// coprocessLook is how often it is looked, at most, who leads once a backup
	// is due, and how long a store that could not be listed is left alone.
	coprocessLook = 10 * time.Second
	// coprocessBackup bounds one backup.
	coprocessBackup = 2 * time.Hour
	// coprocessTidy bounds the removal of backups that are not kept any longer, which
	// the next backup waits for, and goes on with.
	coprocessTidy = 10 * time.Minute
)

// Validate checks what can be checked without touching anything.
func (c *Coprocess) Validate() error {
	switch {
	case c.ClusterName == "":
		return mistake("it is kept beside each backup, such as --cluster-name=etcd", "--cluster-name is required")
	case c.BackupStore == "":
		return mistake("name a directory or object store, such as --backup-store=file:///var/backups/etcd", "--backup-store is required")
	case len(c.ClientURLs) == 0:
		return mistake("such as --client-url=https://127.0.0.1:2379", "--client-url is required")
	case c.Interval < time.Second && !c.Once:
		return mistake("such as --interval=15m", "--interval=%s is too short", c.Interval)
	}
	return validateBackups(c.Backups)
}

// coprocess is one that runs.
type coprocess struct {
	o         Coprocess
	log       *slog.Logger
	client    *etcd.Client
	catalogue *backupstore.Catalogue
	folder    *control.Folder
	packing   backupstore.Packing
	policy    backup.Policy
	past      backup.Past
	listed    time.Time // when the store was listed last
	said      *say.Once
}

// Run takes backups until ctx ends, which is no error. What keeps it from
// starting is one, and so is with Once what keeps the backup from being taken.
func (c Coprocess) Run(ctx context.Context, log *slog.Logger) error {
	if err := c.Validate(); err != nil {
		return err
	}
	p := &coprocess{o: c, log: log, said: say.NewOnce(log)}
	files := []string{c.Etcd.CA, c.Etcd.Cert, c.Etcd.Key, ShownURL(c.BackupStore)}
	if err := take(ctx, log, step{"the certificates for etcd to be read, and the backup store", files, p.open}); err != nil {
		if ctx.Err() != nil && !c.Once {
			return nil // asked to end while it waited
		}
		return err
	}
	defer p.client.Close()
	if c.Once {
		b, err := p.take(ctx, backup.ReasonRequested)
		if err == nil {
			p.tell(b)
		}
		return err
	}
	log.Info("backups are taken while this member leads raft", "cluster", c.ClusterName, "member", c.ClientURLs[0], "store", ShownURL(c.BackupStore), "interval", c.Interval)
	for ctx.Err() == nil {
		wake.After(ctx, p.step(ctx, time.Now()))
	}
	log.Info("no more backups are taken")
	return nil
}

// open opens the store and prepares the client.
func (p *coprocess) open(ctx context.Context) error {
	var err error
	if p.packing, err = p.o.Backups.Packing(); err != nil {
		return err
	}
	if p.policy, err = p.o.Backups.Policy(os.Getenv); err != nil {
		return &Error{Problem: "how long backups are kept", Err: err, Advice: "a duration such as 7d or 2y"}
	}
	config, err := p.o.config()
	if err != nil {
		return &Error{Problem: "read the certificates for etcd", Err: err, Advice: "--client-ca-file, --client-cert-file and --client-key-file name them"}
	}
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var store blob.Store
	if store, err = open.Open(openCtx, p.o.BackupStore, open.Options{Create: true}); err != nil {
		return err
	}
	p.catalogue, p.folder = backupstore.New(store), control.New(store, p.o.ClusterName)
	if in, _, _, err := p.folder.ReadIntent(openCtx); errors.Is(err, control.ErrOtherCluster) {
		return &Error{Problem: "the backup store " + ShownURL(p.o.BackupStore), Err: err, Advice: fmt.Sprintf(
			"give cluster %s another --backup-store, which is empty. --cluster-name=%s is right only if the etcd at %s is that cluster's: a backup of another one would be restored as its own",
			p.o.ClusterName, cluster.ShellWord(in.Name), p.o.ClientURLs[0])}
	}
	p.client, err = etcd.New(config)
	return err
}

func (c *Coprocess) config() (etcd.Config, error) {
	secure, err := c.Etcd.TLS()
	out := etcd.Config{Endpoints: c.ClientURLs, TLS: secure}
	if c.User != "" {
		out.Credential = passwordOf(c.User, c.PasswordFile)
	}
	return out, err
}

// passwordOf reads a user's password anew each time that etcd asks for it.
func passwordOf(user, file string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		data, err := regular.Read(file, regular.SmallSize)
		if err != nil {
			return "", "", fmt.Errorf("read the password of etcd's user %s: %w", user, err)
		}
		return user, strings.TrimRight(string(data), "\r\n"), nil
	}
}

// step takes a backup if one is due and the member leads raft, and tells how
// long to wait.
func (p *coprocess) step(ctx context.Context, now time.Time) time.Duration {
	schedule := backup.Schedule{Interval: p.o.Interval}
	soon := min(coprocessLook, p.o.Interval)
	if at, _ := backup.Due(schedule, p.past, now); at.After(now) && !p.listed.IsZero() {
		return at.Sub(now)
	}
	if !p.leads(ctx) {
		p.listed = time.Time{} // another one takes backups meanwhile
		return soon
	}
	if !p.look(ctx, now) {
		return soon
	}
	if at, _ := backup.Due(schedule, p.past, now); at.After(now) {
		return at.Sub(now)
	}
	b, err := p.take(ctx, backup.ReasonPeriodic)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		p.past.Failed, p.past.Failures = time.Now(), p.past.Failures+1
		p.log.Error("a backup failed", "failures", p.past.Failures, "err", err)
	} else {
		p.past = backup.Past{Last: b.Name.Time()}
		p.tell(b)
	}
	at, _ := backup.Due(schedule, p.past, time.Now())
	return max(time.Until(at), 0)
}

// leads reports whether the member is raft's leader now.
func (p *coprocess) leads(ctx context.Context) bool {
	st, err := p.client.Status(ctx)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		p.said.Say("leads", "the member does not tell its status", err)
		return false
	case st.Auth:
		p.said.Say("leads", "the member asks for a credential", errors.New("its authentication is on: --etcd-user and --etcd-password-file, or a client certificate of a user with the root role"))
		return false
	}
	p.said.Say("leads", "the member does not tell its status", nil)
	mine := st.Leader != 0 && st.Leader == st.Member
	if word := fmt.Sprint(mine, st.Leader); p.said.News("role", word) {
		p.log.Info("raft's leader", "leader", leaderWord(st.Leader), "this member", st.Member, "backups are taken here", mine)
	}
	return mine
}

func leaderWord(id cluster.MemberID) string {
	if id == 0 {
		return "none"
	}
	return id.String()
}

// look finds out when the last backup began, whoever took it.
func (p *coprocess) look(ctx context.Context, now time.Time) bool {
	entries, err := p.catalogue.List(ctx)
	if ctx.Err() != nil {
		return false
	}
	p.said.Say("list", "cannot list the backups", err)
	if err != nil {
		return false
	}
	names := make([]backup.Name, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	p.listed = now
	if last := backup.Last(names, now); last.After(p.past.Last) {
		p.past = backup.Past{Last: last}
	}
	return true
}

func (p *coprocess) take(ctx context.Context, reason backup.Reason) (backupstore.Backup, error) {
	ctx, cancel := context.WithTimeout(ctx, coprocessBackup)
	defer cancel()
	host, _ := os.Hostname() // only told
	b, err := sources.SnapshotInto(ctx, p.client, p.catalogue, p.packing, backupstore.Request{
		Manifest: backup.Manifest{Cluster: p.o.ClusterName, Host: cluster.HostID(host), Reason: reason},
	})
	if err != nil {
		return b, err
	}
	tidyCtx, done := context.WithTimeout(ctx, coprocessTidy)
	defer done()
	sources.Tidy(tidyCtx, p.catalogue, p.folder, p.policy, p.log, p.said.Say)
	return b, nil
}

func (p *coprocess) tell(b backupstore.Backup) {
	m := b.Manifest
	p.log.Info("backup taken", "backup", b.Name, "revision", m.Position.Revision, "bytes", m.Snapshot.Size, "stored", m.Stored.Size, "took", m.Duration)
}
