// Package unit is the systemd unit of the agent: its text, and the few things that are asked of systemd about it.
//
// What must always hold: etcd outlives its agent. Only the agent is signalled by systemd (KillMode=process), and what
// becomes of etcd is the agent's: SIGTERM, as systemctl stop sends it, ends both; SIGUSR1, as systemctl reload sends
// it, ends the agent alone, and so does every crash. The next agent, which systemd starts, adopts the etcd.
package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// Name is the unit's.
const Name = "etcdadm.service"

// Mark is in the first line of a unit that was made here. Another one is somebody else's.
const Mark = "# Made by etcdadm"

// Spec is what differs from host to host.
type Spec struct {
	Binary      string   // the program, absolute
	Environment string   // the file with its settings, absolute
	Writes      []string // directories that the agent and etcd write to, absolute
	Mounts      []string // directories that have to be mounted before the agent starts, absolute
}

// text is written out whole, so that an administrator reads what is so. A drop-in changes each line of it.
var text = template.Must(template.New(Name).Parse(Mark + `, which writes it anew. Keep changes in a drop-in: systemctl edit etcdadm
[Unit]
Description=etcdadm, the agent that runs etcd on this host
Wants=network-online.target
After=network-online.target time-sync.target
{{- range .Mounts}}
RequiresMountsFor={{.}}
{{- end}}
# A voter that systemd has given up on is one voter less.
StartLimitIntervalSec=0

[Service]
Type=notify
EnvironmentFile={{.Environment}}
ExecStart={{.Binary}} auto
# The agent ends, etcd goes on, and Restart= starts the program that lies there now.
ExecReload=/bin/sh -c "kill -USR1 $MAINPID"
# etcd is the agent's to stop: it outlives a crash and a replacement of the agent.
KillMode=process
Restart=always
RestartSec=1s
# A start may wait for a disk or mount, and etcd runs meanwhile.
TimeoutStartSec=infinity
# An agent that ends gives its parts three minutes.
TimeoutStopSec=4min
# The agent starts an etcd again that was killed for want of memory.
OOMPolicy=continue
OOMScoreAdjust=-900
CPUWeight=500
IOWeight=500
LimitNOFILE=65536
TasksMax=infinity

NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
{{- range .Writes}}
ReadWritePaths={{.}}
{{- end}}
ProtectHome=read-only
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
`))

// Text is the unit. It is refused where a path could not be written into one.
func (s Spec) Text() ([]byte, error) {
	for _, path := range append([]string{s.Binary, s.Environment}, append(s.Writes, s.Mounts...)...) {
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'%\$;`, r) || r == 0x7f }) {
			return nil, fmt.Errorf("make %s: the path %q cannot be in a unit: use one without blanks, quotes, %%, $ and backslashes", Name, path)
		}
	}
	var b bytes.Buffer
	if err := text.Execute(&b, s); err != nil {
		return nil, fmt.Errorf("make %s: %w", Name, err)
	}
	return b.Bytes(), nil
}

// Ours tells whether a unit's text was made here.
func Ours(text []byte) bool { return bytes.HasPrefix(text, []byte(Mark)) }

// ErrNoSystemd says that systemd does not run this machine.
var ErrNoSystemd = errors.New("systemd does not run on this machine")

// Error is what systemctl did not do.
type Error struct {
	Command string // such as "systemctl start etcdadm.service"
	Said    string // its words
	Err     error
}

func (e *Error) Error() string {
	if e.Said != "" {
		return fmt.Sprintf("%s: %s", e.Command, e.Said)
	}
	return fmt.Sprintf("%s: %v", e.Command, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is what to do.
func (e *Error) Hint() string { return "look at: journalctl -u etcdadm" }

// Systemd is the service manager of this machine.
type Systemd struct{}

// booted is where systemd says that it runs; see sd_booted(3).
const booted = "/run/systemd/system"

// Check is ErrNoSystemd where there is none.
func (Systemd) Check(context.Context) error {
	if info, err := os.Stat(booted); err != nil || !info.IsDir() {
		return ErrNoSystemd
	}
	return nil
}

// systemctlTimeout is for a call that waits for nothing but systemd itself, on a machine that is busy.
const systemctlTimeout = 30 * time.Second

func systemctl(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return &Error{Command: "systemctl " + strings.Join(args, " "), Said: strings.Join(strings.Fields(string(said)), " "), Err: err}
	}
	return nil
}

// Active tells whether the agent runs, or is being started.
func (Systemd) Active(ctx context.Context) (bool, error) {
	state, err := activity(ctx)
	return state == "active" || state == "activating" || state == "reloading", err
}

// activity is what systemd says of the agent, as "active" or "deactivating".
func activity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "is-active", Name).Output()
	switch state := strings.TrimSpace(string(out)); state {
	case "active", "activating", "reloading", "inactive", "failed", "deactivating", "unknown":
		return state, nil
	}
	return "", &Error{Command: "systemctl is-active " + Name, Err: err}
}

// Journal is the last lines that the agent has logged.
func (Systemd) Journal(ctx context.Context, lines int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	args := []string{"-u", Name, "-n", strconv.Itoa(lines), "--no-pager", "-o", "short-iso"}
	out, err := exec.CommandContext(ctx, "journalctl", args...).Output()
	if err != nil {
		return nil, &Error{Command: "journalctl " + strings.Join(args, " "), Err: err}
	}
	return out, nil
}

// Start has systemd read its units again, and starts the agent, now and with the machine. It waits for neither the
// agent nor etcd. What runs already goes on.
func (Systemd) Start(ctx context.Context) error {
	for _, args := range [][]string{{"daemon-reload"}, {"enable", Name}, {"start", "--no-block", Name}} {
		if err := systemctl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

const (
	// stopTimeout is longer than the unit's TimeoutStopSec.
	stopTimeout = 5 * time.Minute
	// stopLook is how often it is looked, by a program that is started each time.
	stopLook = 200 * time.Millisecond
)

// Stop ends the agent, and has it not start with the machine any more. The agent ends its etcd. It waits until the
// agent is gone, for five minutes at most. What does not run, or is not there, is stopped.
func (Systemd) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := systemctl(ctx, "daemon-reload"); err != nil { // its file may be gone
		return err
	}
	loaded, err := loadState(ctx)
	if err != nil {
		return err
	}
	if loaded != "not-found" {
		if err := systemctl(ctx, "disable", "--quiet", Name); err != nil {
			return err
		}
	}
	for asked := false; ; {
		switch state, err := activity(ctx); {
		case err != nil:
			return err
		case state == "inactive" || state == "failed" || state == "unknown":
			return nil
		case !asked:
			if err := systemctl(ctx, "stop", "--no-block", Name); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return &Error{Command: "systemctl stop " + Name, Said: "the agent has not ended yet", Err: ctx.Err()}
		case <-time.After(stopLook):
		}
	}
}

// Reload has systemd read its units again, after one was taken away, and forget that it failed.
func (Systemd) Reload(ctx context.Context) error {
	if err := systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	_ = systemctl(ctx, "reset-failed", Name) // it is an error where there is nothing to forget
	return nil
}

// loadState is whether systemd has loaded the unit: "loaded", "not-found" and the like.
func loadState(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState", "--value", Name).Output()
	if err != nil {
		return "", &Error{Command: "systemctl show " + Name, Err: err}
	}
	return strings.TrimSpace(string(out)), nil
}

// endTimeout is longer than what systemd gives a unit by its default.
const endTimeout = 2 * time.Minute

// End stops a unit that is not ours, and has it not start with the machine any more. One that cannot be disabled, as it has no
// [Install] section or is made anew at each boot, is stopped only.
func End(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	_ = systemctl(ctx, "disable", "--quiet", name) // before its end, after which an interrupted caller would not find it
	said, err := exec.CommandContext(ctx, "systemctl", "stop", name).CombinedOutput()
	if err != nil {
		return &Error{Command: "systemctl stop " + name, Said: strings.Join(strings.Fields(string(said)), " "), Err: err}
	}
	return nil
}

// priorities are the directives of systemd.exec(5) and systemd.resource-control(5) that say how much of CPU and disk etcd gets.
var priorities = []string{"Nice", "CPUWeight", "IOWeight", "IOSchedulingClass", "IOSchedulingPriority"}

// Priorities is a drop-in with such directives.
func Priorities(of map[string]string) ([]byte, error) {
	var b strings.Builder
	b.WriteString(Mark + ", as init or join was asked\n[Service]\n")
	for _, name := range slices.Sorted(maps.Keys(of)) {
		switch {
		case !slices.Contains(priorities, name):
			return nil, fmt.Errorf("%s is no priority: they are %s", name, strings.Join(priorities, ", "))
		case strings.ContainsFunc(of[name], func(r rune) bool { return r <= ' ' || r == 0x7f || r == '%' || r == '\\' }):
			return nil, fmt.Errorf("the value of %s cannot be in a unit", name)
		}
		fmt.Fprintf(&b, "%s=%s\n", name, of[name])
	}
	return []byte(b.String()), nil
}
