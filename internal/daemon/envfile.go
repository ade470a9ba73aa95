package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/envfile"
)

const (
	// envLook is how often the environment file is read. What is in it is taken when two looks
	// have found the same, so that a file which is being written is not.
	envLook = 2 * time.Second
	// envAnswers is how long its disk or mount is waited for.
	envAnswers = time.Second
	// envAgain is how long credentials that the store did not take are left alone: they may be
	// known to it a little later.
	envAgain = 10 * time.Second
)

// envRead is a look at the file.
type envRead struct {
	vars map[string]string
	at   time.Time // when it was written
}

// follow looks until ctx ends.
func (f *follower) follow(ctx context.Context) error {
	if f == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(envLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			f.look(ctx)
		}
	}
}

func (f *follower) look(ctx context.Context) {
	got, err := bounded.Do(ctx, f.path, envAnswers, func() (envRead, error) { return readEnv(f.path) })
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		f.last = map[string]string{"": ""} // no file is like that: whatever comes is looked at twice
		f.tell(fmt.Sprintf("the environment file cannot be read, and what was in it before stays in force: %v; mend the file, and it is taken within seconds", err))
		return
	case !maps.Equal(got.vars, f.last):
		f.last, f.tried = got.vars, time.Time{}
		return
	}
	since := got.at.UTC().Format(time.RFC3339)
	f.takeCredentials(ctx, since)
	if ctx.Err() != nil {
		return
	}
	var said []string
	if f.refusal != "" {
		said = append(said, f.refusal)
	}
	if names := f.waiting(got.vars); len(names) > 0 {
		said = append(said, fmt.Sprintf("%s in the environment file %s changed at %s, and this daemon reads the file only when it starts; %s", shownNames(names), f.path, since, f.kept))
	}
	f.tell(said...)
}

func readEnv(path string) (envRead, error) {
	vars, err := envfile.Read(path)
	if err != nil {
		return envRead{}, err
	}
	out := envRead{vars: byName(vars)}
	if info, err := os.Stat(path); err == nil {
		out.at = info.ModTime()
	}
	return out, nil
}

func byName(vars []envfile.Variable) map[string]string {
	out := map[string]string{}
	for _, v := range vars {
		out[v.Name] = v.Value
	}
	return out
}

// changed are the names that two files do not have alike.
func (f *follower) changed(from, to map[string]string, which func(name string) bool) []string {
	var out []string
	for _, pair := range [][2]map[string]string{{from, to}, {to, from}} {
		for name, value := range pair[0] {
			if other, has := pair[1][name]; which(name) && (!has || other != value) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// waiting are the variables that only a restart of the daemon takes.
func (f *follower) waiting(now map[string]string) []string {
	return f.changed(f.started, now, func(name string) bool { return !open.Credential(name) })
}

// namesShown begin the names that are told. Any other one may be the rest of a value that was
// broken in two, as a secret in base64 that ends with = is.
var namesShown = []string{"ETCD_", "ETCDADM_", "S3_", "AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "HTTP_", "HTTPS_", "NO_PROXY", "SSL_"}

func shownNames(names []string) string {
	var shown []string
	for _, n := range names {
		if slices.ContainsFunc(namesShown, func(begin string) bool { return strings.HasPrefix(n, begin) }) {
			shown = append(shown, n)
		}
	}
	switch others := len(names) - len(shown); {
	case others == 0:
	case len(shown) == 0:
		return fmt.Sprintf("variables (%d)", others)
	default:
		shown = append(shown, fmt.Sprintf("and %d more", others))
	}
	return strings.Join(shown, ", ")
}

// takeCredentials has the store use what is in the file now.
func (f *follower) takeCredentials(ctx context.Context, since string) {
	names := f.changed(f.taken, f.last, open.Credential)
	switch {
	case len(names) == 0 || f.renew == nil:
		f.refusal = ""
		return
	case !f.tried.IsZero() && time.Since(f.tried) < envAgain:
		return
	}
	for _, name := range names {
		if _, set := f.taken[name]; set {
			continue // else it is the environment's own, to which a file that is without it goes back
		}
		if value, is := os.LookupEnv(name); is {
			f.own[name] = value
		}
	}
	err := f.renew(ctx, func() func() { return setAll(names, f.last, f.own) })
	switch {
	case ctx.Err() != nil:
	case err != nil:
		// The words are those of the first try of their kind, for a status that stands still.
		if kind := kindOf(err); f.tried.IsZero() || !errors.Is(kind, f.kind) {
			f.kind = kind
			f.refusal = fmt.Sprintf("%s in the environment file %s changed at %s, and the backup store is not reached with them: %v. The credentials from before stay in use; correct the file, and they are tried every %s",
				strings.Join(names, ", "), f.path, since, err, envAgain)
		}
		f.tried = time.Now()
	default:
		f.taken, f.refusal = f.last, ""
		f.log.Info("the backup store is used with new credentials", "variables", names, "file", f.path, "changed", since)
	}
}

// errOther is of no kind that decides what a person does.
var errOther = errors.New("another error")

// kindOf is what the store had against credentials: what a person does about it differs.
func kindOf(err error) error {
	for _, kind := range []error{blob.ErrForbidden, blob.ErrReadOnly, blob.ErrNotFound, blob.ErrRetained, blob.ErrUnsupported, control.ErrOtherCluster, control.ErrMalformed, errNotOurs, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return errOther
}

// setAll gives variables the values of a file, or those from before any file.
func setAll(names []string, file, own map[string]string) (undo func()) {
	was := map[string]string{}
	for _, name := range names {
		if value, is := os.LookupEnv(name); is {
			was[name] = value
		}
		set(name, file, own)
	}
	return func() {
		for _, name := range names {
			set(name, was)
		}
	}
}

// set gives a variable the first value that there is; none unsets it. The names come from a
// file that was read: no system refuses them.
func set(name string, from ...map[string]string) {
	for _, values := range from {
		if value, has := values[name]; has {
			_ = os.Setenv(name, value)
			return
		}
	}
	_ = os.Unsetenv(name)
}

// tell keeps what people have to know, and logs what is news.
func (f *follower) tell(sentences ...string) {
	var now []cluster.Problem
	for _, s := range sentences {
		now = append(now, cluster.Problem{Code: "env-file-not-applied", Sentence: s})
	}
	f.mu.Lock()
	was := f.problems
	f.problems = now
	f.mu.Unlock()
	for _, p := range now {
		if !slices.Contains(was, p) {
			f.log.Warn("the environment file is not in force as it is", "because", p.Sentence)
		}
	}
	if len(was) > 0 && len(now) == 0 {
		f.log.Info("the environment file is in force", "file", f.path)
	}
}

// told never waits.
func (f *follower) told() []cluster.Problem {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.problems)
}

// problems are what this daemon has to say of its host beside the host itself.
func (d *daemon) problems() []cluster.Problem {
	return slices.Concat(d.logRoom.problems(), d.env.told(), d.keeping.Problems(), d.moves.follower.Problems(), d.certs.problems())
}

// restartWords are how this daemon is restarted while its etcd goes on.
func (c *Config) restartWords() string {
	if os.Getpid() == 1 {
		return "restart the container: etcd restarts with it, so take one host after the other"
	}
	if c.OnSigterm == SigtermLeave {
		return "restart the daemon: SIGTERM leaves etcd running (--on-sigterm=leave), and the next daemon adopts it"
	}
	return "restart the daemon; this one ends etcd with itself on SIGTERM: start it with --on-sigterm=leave, and later restarts keep etcd running"
}

// renewStore opens the store anew with other credentials, and that of the backups where it is another: with both, or with none.
func (d *daemon) renewStore(ctx context.Context, set func() (undo func())) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	record, renewed := credentialed(d.store)
	backups, apart := credentialed(d.backups)
	apart = apart && d.backups != d.store
	listed := func(ctx context.Context, s blob.Store) error {
		_, err := s.List(ctx, control.Prefix) // which is empty there, or small
		return err
	}
	switch {
	case renewed && apart:
		return record.renew(ctx, set, func(ctx context.Context, s blob.Store) error {
			if err := d.answers(ctx, s); err != nil {
				return err
			}
			return backups.renew(ctx, func() func() { return func() {} }, listed)
		})
	case renewed:
		return record.renew(ctx, set, d.answers)
	case apart:
		return backups.renew(ctx, set, listed)
	}
	return errors.New("this store cannot be reopened")
}

func credentialed(s blob.Store) (*lateStore, bool) {
	late, is := s.(*lateStore)
	return late, is && open.Credentialed(late.url)
}
