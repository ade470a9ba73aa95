package daemon

import (
	"context"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// notifyEvery is how often systemd is told what the daemon is about, where that is another thing than before: often
// enough for a person who looks, and no work for an idle daemon.
const notifyEvery = 2 * time.Second

// notify tells systemd, where that started the daemon, that it answers from now on, and what it is about. Without
// NOTIFY_SOCKET in the environment it does nothing. What systemd does not take is no reason to end.
func (d *daemon) notify(ctx context.Context) error {
	if told, err := systemd.SdNotify(false, systemd.SdNotifyReady+"\nSTATUS="+about(d)); !told {
		if err != nil {
			d.log.Warn("systemd could not be told that this daemon answers", "err", err)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	t := time.NewTicker(notifyEvery)
	defer t.Stop()
	for said := ""; ; {
		if now := about(d); now != said {
			said = now
			_, _ = systemd.SdNotify(false, "STATUS="+now)
		}
		select {
		case <-ctx.Done():
			_, _ = systemd.SdNotify(false, systemd.SdNotifyStopping)
			return ctx.Err()
		case <-t.C:
		}
	}
}

// about is what this daemon is about, in one line.
func about(d *daemon) string {
	s := d.manager.Status()
	words := "host " + string(d.id) + " of cluster " + d.cfg.ClusterName
	switch {
	case s.Leading && s.Decision != nil:
		words += ", leading: " + s.Decision.Reason.String()
	case s.Leader != "":
		words += ", led by " + string(s.Leader)
	default:
		words += ", no daemon leads yet"
	}
	return strings.ReplaceAll(words, "\n", " ")
}
