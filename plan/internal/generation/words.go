package generation

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/step"
)

func SourceWords(s cluster.Source) string {
	switch s.Kind {
	case cluster.SourceBackup:
		return "backup " + s.Backup
	case cluster.SourceSurvivor:
		return "the data of a survivor"
	case cluster.SourceSetAside:
		return "the data that was set aside as " + s.Dir
	case cluster.SourceHalted:
		return "all that the members had when they were stopped"
	}
	return s.Kind
}

func commandWords(c *cluster.Command) string {
	switch c.Kind {
	case cluster.CommandRecover:
		return "the data of host " + string(c.Host)
	case cluster.CommandUndo:
		return "what host " + string(c.Host) + " set aside as " + c.Dir
	case cluster.CommandChange:
		return "what the members had when they were stopped (host " + string(c.Host) + " has all of it)"
	}
	return "backup " + c.Backup + doubtWords(c)
}

// doubtWords says what speaks against the backup that a command names. It is
// restored from all the same: that is for who queued the command to weigh, and
// its snapshot is held against its own checksum before anything is touched.
func doubtWords(c *cluster.Command) string {
	if c.Found == nil || c.Found.Doubt == "" {
		return ""
	}
	return " (of which etcdadm backup list says BAD: " + c.Found.Doubt + ")"
}

// GenerationCommand is what a person would have typed.
func GenerationCommand(v *step.View, c *cluster.Command) string {
	b := "etcdadm restore " + c.Backup
	switch c.Kind {
	case cluster.CommandChange:
		return fmt.Sprintf("etcdadm upgrade %s --accept-outage", c.Version)
	case cluster.CommandRecover:
		b = "etcdadm recover --from " + string(c.Host)
	case cluster.CommandUndo:
		b = fmt.Sprintf("etcdadm restore --undo --from %s --dir %s", c.Host, c.Dir)
	}
	if !c.Version.IsZero() {
		b += " --to-version " + c.Version.String()
	}
	if c.Count != nil {
		b += fmt.Sprintf(" --members %d", c.Count.Members)
	}
	if c.AcceptLoss != "" {
		b += " --accept-loss=" + c.AcceptLoss
	}
	if c.Seen != nil && c.Seen.AcceptOlder {
		b += " --accept-older"
	}
	if c.NoBackup {
		b += " --no-backup"
	}
	if c.Found != nil && c.Found.Doubt != "" {
		b += " --accept-damage"
	}
	for _, l := range c.Lost {
		b += " --lost " + string(l)
	}
	return b
}
