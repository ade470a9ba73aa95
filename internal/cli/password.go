package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/regular"
)

// password is what a file says that a person named. A file is read anew each time that
// etcd asks, as it may have been changed meanwhile; a pipe gives its content once, and
// what it gave is kept for as long as the command runs.
type password struct {
	mu    sync.Mutex // guards piped, and has one caller read at a time
	piped []byte     // nil: nothing was read of a pipe yet
}

// given is the credential of two flags whose names begin alike; nil: none was given. It
// reads the password before etcd is asked anything: whoever writes to a pipe may ask a
// person first, for longer than a call to etcd may take, and has until the command ends.
func (p *password) given(ctx context.Context, flags, user, file string) (func(context.Context) (user, password string, err error), error) {
	if (user == "") != (file == "") {
		return nil, usage("give both, or none", "%suser and %spassword-file belong together", flags, flags)
	}
	if user == "" {
		return nil, nil
	}
	progress.Begin(ctx, 0, "", "reading %spassword-file", flags)
	if _, err := p.read(ctx, file); err != nil {
		return nil, fmt.Errorf("read %spassword-file: %w", flags, err)
	}
	progress.Begin(ctx, 0, "", "asking etcd")
	return p.credential(user, file), nil
}

// credential tells a user and the password in the file, without the line's end.
func (p *password) credential(user, file string) func(context.Context) (string, string, error) {
	return func(ctx context.Context) (string, string, error) {
		data, err := p.read(ctx, file)
		return user, strings.TrimRight(string(data), "\r\n"), err
	}
}

func (p *password) read(ctx context.Context, file string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.piped != nil {
		return p.piped, nil
	}
	data, piped, err := regular.ReadOrPipe(ctx, file, regular.SmallSize)
	if err != nil {
		return nil, err
	}
	if piped {
		p.piped = data
	}
	return data, nil
}

// wasPiped: what was read came by a pipe, which nobody reads again by its name.
func (p *password) wasPiped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.piped != nil
}
