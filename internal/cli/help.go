package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Groups of commands, in the order in which help has them.
const (
	groupStart  = "start"
	groupLook   = "look"
	groupChange = "change"
	groupBackUp = "back-up"
	groupRepair = "repair"
)

var helpGroups = []struct {
	id, title string
	commands  []string // of the root
}{
	{groupStart, "Start a cluster:", []string{"init", "join", "token", "kubeadm", "adopt", "pki", "download", "auto", "pod", "playground"}},
	{groupLook, "Look at it:", []string{"status", "info", "plan", "queue", "store", "versions", "version", "support-bundle"}},
	{groupChange, "Change it:", []string{"seed", "member", "host", "restart", "upgrade", "config", "auto-manage", "certs", "reset", "destroy"}},
	{groupBackUp, "Back it up:", []string{"backup", "snapshot"}},
	{groupRepair, "Repair it:", []string{"restore", "recover", "defrag", "alarm", "apply"}},
}

// examples are those of the commands that have none of their own, by their path without
// the program. HOST, NAME and the like are to be filled in.
var examples = map[string]string{
	"adopt": `etcdadm adopt --endpoints https://127.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key \
  --certs-dir /etc/kubernetes/pki/etcd --store s3://BUCKET/FOLDER --dry-run`,
	"alarm disarm": `etcdadm alarm disarm NOSPACE`,
	"alarm list":   `etcdadm alarm list`,
	"auto": `etcdadm auto file:///var/backups/etcd --cluster-name=etcd --data-dir=/var/lib/etcdadm --address=192.0.2.1
ETCDADM_BACKUP_STORE=s3://BUCKET/FOLDER etcdadm auto --cluster-name=etcd --data-dir=/var/lib/etcdadm`,
	"backup copy":        `etcdadm backup copy NAME file:///mnt/elsewhere --create-store`,
	"backup create":      `etcdadm backup create --wait 2m`,
	"backup download":    `etcdadm backup download NAME /tmp/snapshot.db`,
	"backup drill":       `etcdadm backup drill NAME`,
	"backup extract":     `etcdadm backup extract /mnt/copy-1 /mnt/copy-2 /mnt/copy-3 --store s3://BUCKET/FOLDER`,
	"backup list":        `etcdadm backup list --store s3://BUCKET/FOLDER -o json`,
	"backup pin":         `etcdadm backup pin NAME "before the move to 3.7"`,
	"backup prune":       `etcdadm backup prune --dry-run`,
	"backup run":         `etcdadm backup run --cluster-name etcd --backup-store s3://BUCKET/FOLDER --client-url https://127.0.0.1:2379`,
	"backup show":        `etcdadm backup show NAME -o json`,
	"backup verify":      `etcdadm backup verify NAME`,
	"config get":         `etcdadm config get quota-backend-bytes`,
	"config list":        `etcdadm config list`,
	"config set":         `etcdadm config set quota-backend-bytes=8589934592 --wait 10m`,
	"config unset":       `etcdadm config unset quota-backend-bytes`,
	"defrag":             "etcdadm defrag --dry-run\netcdadm defrag HOST",
	"download":           "etcdadm download 3.6\netcdadm download 3.6.16 --from /mnt/usb",
	"host confirm-disk":  `etcdadm host confirm-disk HOST`,
	"host forget":        `etcdadm host forget HOST`,
	"host pause":         `etcdadm host pause HOST --for 30m --reason "new kernel"`,
	"host prune":         `etcdadm host prune HOST --dir NAME`,
	"host reset-fence":   `etcdadm host reset-fence HOST`,
	"host resume":        `etcdadm host resume HOST`,
	"member add":         `etcdadm member add HOST --hold`,
	"member list":        `etcdadm member list -o json`,
	"member move-leader": `etcdadm member move-leader HOST`,
	"member promote":     `etcdadm member promote HOST`,
	"member remove":      `etcdadm member remove HOST --dry-run`,
	"member replace":     `etcdadm member replace HOST`,
	"member restart":     `etcdadm member restart HOST`,
	"pod":                `etcdadm pod s3://BUCKET/FOLDER --cluster-name=etcd --data-dir=/data --leaves-dir=/leaves --address=$(POD_IP)`,
	"pki init":           `etcdadm pki init --pki-dir /etc/etcdadm/pki`,
	"pki issue":          `etcdadm pki issue alice --role reader --cluster-name etcd --out ./alice`,
	"plan":               "etcdadm plan\netcdadm plan --from status.json",
	"playground":         "etcdadm playground\netcdadm playground --members 5 --dir /tmp/etcd-playground",
	"recover":            "etcdadm recover\netcdadm recover --from HOST --lost HOST --lost HOST --yes --wait 10m",
	"restore":            "etcdadm restore NAME --dry-run\netcdadm restore NAME --yes --wait 10m\netcdadm restore --undo --from HOST --dir DIRECTORY --yes",
	"seed":               "etcdadm seed s3://BUCKET/FOLDER --version 3.7.3 --nodes 3\netcdadm seed s3://BUCKET/FOLDER --nodes 5",
	"snapshot dump":      `etcdadm snapshot dump /tmp/snapshot.db --prefix /registry/secrets/`,
	"snapshot extract":   `etcdadm snapshot extract /mnt/copy/etcdadm /tmp/snapshot.db -o json`,
	"snapshot restore":   `etcdadm snapshot restore /tmp/snapshot.db --data-dir-out /var/lib/etcd --name a --peer-url https://192.0.2.1:2380`,
	"snapshot save":      `etcdadm snapshot save /tmp/snapshot.db --etcd-endpoints https://127.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key`,
	"snapshot status":    `etcdadm snapshot status /tmp/snapshot.db`,
	"versions":           "etcdadm versions\netcdadm versions --data-dir /var/lib/etcdadm --all",
}

// explain puts the commands into groups, and gives those an example that have none.
func explain(root *cobra.Command) {
	for _, g := range helpGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range g.commands {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.GroupID = g.id
			}
		}
	}
	exemplify(root, "")
}

func exemplify(c *cobra.Command, path string) {
	if text := examples[path]; c.Example == "" && text != "" {
		c.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	for _, sub := range c.Commands() {
		exemplify(sub, strings.TrimSpace(path+" "+sub.Name()))
	}
}
