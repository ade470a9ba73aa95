package staticpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/regular"
)

// Kubelet runs the agent as long as its manifest lies there.
type Kubelet struct {
	Manifest string               // the file, absolute
	Held     func() (bool, error) // whether an agent has the data directory
}

// ErrNoKubelet says that no kubelet runs on this machine.
var ErrNoKubelet = errors.New("no kubelet runs on this machine")

// Error is what the kubelet did not do.
type Error struct {
	Problem string
	Err     error
	Advice  string
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Problem + ": " + e.Err.Error()
	}
	return e.Problem
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is what to do.
func (e *Error) Hint() string { return e.Advice }

const (
	// healthz is where a kubelet answers its own machine, unless it is told otherwise.
	healthz = "http://127.0.0.1:10248/healthz"
	// healthzTimeout is for an answer from memory.
	healthzTimeout = 2 * time.Second
)

// Check is ErrNoKubelet where none runs. Distributions that have it in another program are known by its health page.
func (Kubelet) Check(ctx context.Context) error {
	if processes, err := filepath.Glob("/proc/[0-9]*/comm"); err == nil {
		for _, path := range processes {
			if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == "kubelet" {
				return nil
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healthzTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, healthz, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return ErrNoKubelet
	}
	answer.Body.Close()
	return nil
}

// Active tells whether the agent runs.
func (k Kubelet) Active(context.Context) (bool, error) { return k.Held() }

// Start is an error where there is no manifest to start the agent by. The kubelet sees it within a second, and by its
// own look every 20 seconds.
func (k Kubelet) Start(context.Context) error {
	_, err := os.Stat(k.Manifest)
	return err
}

const (
	// stopTimeout is longer than the grace period of the pod, with the kubelet's looks before and after.
	stopTimeout = 5 * time.Minute
	// stopLook is how often it is looked whether the agent has ended. A lock is asked for.
	stopLook = 200 * time.Millisecond
)

// Stop waits until the agent of a manifest that was moved away has ended, and its etcd with it, for five minutes at most.
func (k Kubelet) Stop(ctx context.Context) error {
	if _, err := os.Lstat(k.Manifest); !errors.Is(err, fs.ErrNotExist) {
		return &Error{Problem: k.Manifest + " still lies there", Err: err, Advice: "move it away, and the kubelet ends the pod"}
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for {
		held, err := k.Held()
		if err != nil || !held {
			return err
		}
		select {
		case <-ctx.Done():
			return &Error{Problem: "the static pod has not ended yet", Err: ctx.Err(), Advice: "look at the kubelet, which ends it, and at crictl pods --name " + Name + "; run the command again to wait on"}
		case <-time.After(stopLook):
		}
	}
}

// Reload has nothing to do: the kubelet has seen that the manifest is gone.
func (Kubelet) Reload(context.Context) error { return nil }

// logs is where a kubelet has the output of containers, unless it is told otherwise.
const logs = "/var/log/pods"

// Journal is the last lines that the agent has logged, as the container's runtime keeps them.
func (Kubelet) Journal(_ context.Context, lines int) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(logs, Namespace+"_"+Name+"-*", Name, "*.log"))
	if err != nil {
		return nil, err
	}
	written := func(path string) (at time.Time) {
		if info, err := os.Stat(path); err == nil {
			at = info.ModTime()
		}
		return at
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no log of the static pod is in %s", logs)
	}
	newest := slices.MaxFunc(files, func(a, b string) int { return written(a).Compare(written(b)) })
	return tail(newest, lines)
}

// tailMost bounds what is read of a log, in bytes.
const tailMost = 1 << 20

// tail is the end of a file in whole lines.
func tail(path string, lines int) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(info.Size()-tailMost, 0)
	data := make([]byte, info.Size()-from)
	n, err := f.ReadAt(data, from)
	if n < len(data) && err != nil {
		return nil, err
	}
	all := strings.SplitAfter(string(data), "\n")
	if from > 0 && len(all) > 1 { // the first one is cut
		all = all[1:]
	}
	if last := len(all) - 1; last >= 0 && all[last] == "" {
		all = all[:last]
	}
	return []byte(strings.Join(all[max(len(all)-lines, 0):], "")), nil
}
