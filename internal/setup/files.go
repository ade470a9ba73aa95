package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/pki"
)

func clientURLs(s Settings) string {
	address := s.Flag("address")
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = "[" + address + "]"
	}
	return strings.ReplaceAll(cmp.Or(s.Flag("client-urls"), listeners[1].usual), "__address__", address)
}

// agentSteps install and start the agent. What is handed over to it is, right before the settings are written.
func (m *Machine) agentSteps(s Settings, handover []step) []step {
	steps := []step{
		{"write for etcdctl: " + m.Paths.Etcdctl() + ", " + m.Paths.EtcdctlScript(), func(context.Context) error { return m.writeEtcdctl(s) }},
		{"make the data directory " + s.Flag("data-dir"), func(context.Context) error {
			if err := errors.Join(m.notePod(), m.Paths.noteOurs(KindData, s.Flag("data-dir"))); err != nil {
				return err
			}
			return durable.MakeDir(s.Flag("data-dir"), modeData)
		}},
	}
	settings := step{"write the agent's settings to " + m.Paths.Settings(), func(context.Context) error { return m.writeSettings(s) }}
	if m.pod != nil { // the kubelet starts it at once
		return append(steps, settings,
			step{"write the static pod's manifest " + m.file() + ", by which the kubelet starts the agent", func(ctx context.Context) error {
				if err := m.makeCache(); err != nil {
					return err
				}
				if err := m.writeDescription(s); err != nil {
					return err
				}
				return m.Service.Start(ctx)
			}})
	}
	steps = append(steps, step{"write the unit " + m.file(), func(context.Context) error { return m.writeDescription(s) }})
	return append(append(steps, handover...), settings, step{"start the agent", func(ctx context.Context) error { return m.Service.Start(ctx) }})
}

func (m *Machine) writeSettings(s Settings) error {
	data, err := s.text(m.speak().Reload)
	if err != nil {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil { // a person may have changed them since
		return nil
	}
	if err := m.Paths.noteOurs(KindSettings, m.Paths.Settings()); err != nil {
		return err
	}
	return put(m.Paths.Settings(), data, modeSecret, func([]byte) bool { return false })
}

const etcdctlMark = "# Made by etcdadm"

// OwnEtcdctl tells whether a file for etcdctl was made here.
func OwnEtcdctl(text []byte) bool { return strings.Contains(string(text), etcdctlMark) }

func (m *Machine) writeEtcdctl(s Settings) error {
	dir := filepath.Join(s.Flag("data-dir"), "etcdadm", "pki", "etcdctl")
	var b strings.Builder
	b.WriteString(etcdctlMark + ", for a shell: . " + m.Paths.Etcdctl() + "\n")
	for _, pair := range [][2]string{
		{"ETCDCTL_ENDPOINTS", clientURLs(s)},
		{"ETCDCTL_CACERT", filepath.Join(dir, pki.ClientNames.CA)},
		{"ETCDCTL_CERT", filepath.Join(dir, pki.ClientNames.Cert)},
		{"ETCDCTL_KEY", filepath.Join(dir, pki.ClientNames.Key)},
		{envfile.OfFlag("data-dir"), s.Flag("data-dir")},
	} {
		fmt.Fprintf(&b, "export %s=%s\n", pair[0], cluster.ShellWord(pair[1]))
	}
	script := "#!/bin/sh\n" + etcdctlMark + ": etcdctl with the certificate of this host\n" +
		"PATH=$PATH:" + filepath.Dir(m.Paths.EtcdctlScript()) + "\n. " + m.Paths.Etcdctl() + "\nexec etcdctl \"$@\"\n"
	if err := m.putEtcdctl(m.Paths.Etcdctl(), b.String(), modePublic); err != nil {
		return err
	}
	return m.putEtcdctl(m.Paths.EtcdctlScript(), script, modeScript)
}

// putEtcdctl leaves a file that somebody else made: nothing of ours hangs on it.
func (m *Machine) putEtcdctl(path, text string, mode fs.FileMode) error {
	if err := m.note(KindDirectory, filepath.Dir(path)); err != nil {
		return err
	}
	err := put(path, []byte(text), mode, OwnEtcdctl)
	if told, ok := errors.AsType[*Error](err); ok && told.Err == nil {
		m.say("left as it is: %s exists and was not made by etcdadm", path)
		return nil
	}
	if err != nil {
		return err
	}
	return m.Paths.noteOurs(KindEtcdctl, path)
}
