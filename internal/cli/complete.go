package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

// completeWithin bounds a completion: a shell waits for it with every key. What is not
// known by then is not offered, and nothing is said about it.
const completeWithin = 2 * time.Second

// candidates are words that a shell may offer, each with what it is behind a tab.
type candidates func(ctx context.Context, c *cobra.Command) []string

// completed are the commands whose words are completed, by their path without the program.
// Every word of several is the same kind; of others only the first one is.
var completed = map[string]struct {
	words candidates
	many  bool
}{
	"member add":         {freeHosts, false},
	"member remove":      {memberHosts, false},
	"member replace":     {memberHosts, false},
	"member promote":     {memberHosts, false},
	"member restart":     {memberHosts, false},
	"member move-leader": {memberHosts, false},
	"restart":            {memberHosts, true},
	"defrag":             {memberHosts, false},
	"host pause":         {knownHosts, false},
	"host resume":        {pausedHosts, false},
	"host confirm-disk":  {knownHosts, false},
	"host forget":        {knownHosts, false},
	"host prune":         {knownHosts, false},
	"host reset-fence":   {knownHosts, false},
	"restore":            {backupNames, false},
	"backup show":        {backupNames, false},
	"backup verify":      {backupNames, false},
	"backup drill":       {backupNames, false},
	"backup download":    {backupNames, false},
	"backup copy":        {backupNames, false},
	"backup pin":         {backupNames, false},
	"upgrade":            {wantedVersions, false},
	"download":           {knownVersions, true},
	"queue cancel":       {queuedNames, false},
	"token revoke":       {tokenIDs, false},
	"config get":         {optionNames, false},
	"config set":         {optionNames, true},
	"config unset":       {optionNames, true},
	"alarm disarm":       {alarmKinds, false},
}

// completedFlags are the flags whose values are completed, by the command's path.
var completedFlags = map[string]map[string]candidates{
	"certs issue":    {"for": issuePurposes},
	"member replace": {"by": freeHosts},
	"recover":        {"from": knownHosts, "lost": knownHosts},
	"restore":        {"from": knownHosts, "lost": knownHosts, "to-version": knownVersions},
	"seed":           {"version": knownVersions},
	"playground":     {"etcd-version": knownVersions, "output": textOrJSON},
}

// complete has shells offer words for commands and flags.
func complete(root *cobra.Command) {
	for path, of := range completed {
		c := commandAt(root, path)
		if c == nil {
			continue // a test names it
		}
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !of.many {
				return nil, cobra.ShellCompDirectiveDefault // files, such as of backup download
			}
			how := cobra.ShellCompDirectiveNoFileComp
			all := slices.DeleteFunc(offered(c, of.words), func(s string) bool {
				word, _, _ := strings.Cut(s, "\t")
				return !strings.HasPrefix(word, typed) || slices.Contains(args, word)
			})
			if len(all) > 0 && strings.HasSuffix(all[0], "=") {
				how |= cobra.ShellCompDirectiveNoSpace
			}
			return all, how
		}
	}
	for path, flags := range completedFlags {
		for name, of := range flags {
			if c := commandAt(root, path); c != nil {
				completeFlag(c, name, of)
			}
		}
	}
	eachBelow(root, func(c *cobra.Command) {
		if c.Flags().Lookup("output") != nil || c.PersistentFlags().Lookup("output") != nil {
			completeFlag(c, "output", outputs)
		}
	})
}

// commandAt is a command by its path; nil: there is none.
func commandAt(root *cobra.Command, path string) *cobra.Command {
	c := root
	for name := range strings.FieldsSeq(path) {
		i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name })
		if i < 0 {
			return nil
		}
		c = c.Commands()[i]
	}
	return c
}

func eachBelow(c *cobra.Command, do func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		do(sub)
		eachBelow(sub, do)
	}
}

func completeFlag(c *cobra.Command, name string, of candidates) {
	// An error is that the flag has one already, or does not exist, which a test names.
	_ = c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return offered(c, of), cobra.ShellCompDirectiveNoFileComp
	})
}

// offered asks for candidates for completeWithin at most, whatever is called for it.
func offered(c *cobra.Command, of candidates) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
	defer cancel()
	found := make(chan []string, 1)
	go func() { found <- of(ctx, c) }() // what hangs ends with the program
	select {
	case all := <-found:
		return all
	case <-ctx.Done():
		return nil
	}
}

// described is a candidate with what it is.
func described(word, what string) string {
	if what == "" {
		return word
	}
	return word + "\t" + what
}

// askedReport is the leading daemon's report, by the flags that were typed; without an
// observation where there is none.
func askedReport(ctx context.Context, c *cobra.Command) console.Report {
	var r reach
	flags := c.Flags()
	r.dataDir, _ = flags.GetString("data-dir") // an empty one is as good as none
	r.endpoints, _ = flags.GetStringSlice("endpoint")
	r.clusterName, _ = flags.GetString("cluster-name")
	r.credentials, _ = flags.GetString("credentials")
	report, err := r.status(ctx)
	if err != nil {
		return console.Report{}
	}
	return report
}

// hostsWhere are the hosts that the leading daemon knows and that are so.
func hostsWhere(ctx context.Context, c *cobra.Command, is func(o *cluster.Observation, id cluster.HostID, seat *cluster.Seat) bool) []string {
	report := askedReport(ctx, c)
	o := report.Observation
	if o == nil {
		return nil
	}
	what := map[cluster.HostID]string{}
	seats := map[cluster.HostID]*cluster.Seat{}
	roster, _ := o.Roster()
	for _, contact := range report.Contacts {
		what[contact.Host] = "no member"
	}
	for i := range o.Hosts {
		what[o.Hosts[i].Host] = "no member"
	}
	for i := range roster.Seats {
		s := &roster.Seats[i]
		if s.HostID == "" {
			continue
		}
		seats[s.HostID] = s
		role := "voter"
		if s.Learner {
			role = "learner"
		}
		if what[s.HostID] = role + ", healthy"; !s.Up {
			what[s.HostID] = role + ", " + s.State()
		}
	}
	var out []string
	for id, words := range what {
		if is(o, id, seats[id]) {
			out = append(out, described(string(id), words))
		}
	}
	slices.Sort(out)
	return out
}

func knownHosts(ctx context.Context, c *cobra.Command) []string {
	return hostsWhere(ctx, c, func(*cluster.Observation, cluster.HostID, *cluster.Seat) bool { return true })
}

func memberHosts(ctx context.Context, c *cobra.Command) []string {
	return hostsWhere(ctx, c, func(_ *cluster.Observation, _ cluster.HostID, s *cluster.Seat) bool { return s != nil })
}

func freeHosts(ctx context.Context, c *cobra.Command) []string {
	return hostsWhere(ctx, c, func(_ *cluster.Observation, _ cluster.HostID, s *cluster.Seat) bool { return s == nil })
}

func pausedHosts(ctx context.Context, c *cobra.Command) []string {
	return hostsWhere(ctx, c, func(o *cluster.Observation, id cluster.HostID, _ *cluster.Seat) bool {
		return slices.ContainsFunc(o.Pauses(), func(p cluster.Pause) bool { return p.Host == id })
	})
}

// mostOffered bounds how many backups are offered, the newest first.
const mostOffered = 50

// backupNames are those of the store that was named, or the newest that the leading daemon
// knows.
func backupNames(ctx context.Context, c *cobra.Command) (out []string) {
	if url, _ := c.Flags().GetString("store"); url != "" {
		store, err := openWithin(ctx, completeWithin, url, toRead)
		if err != nil {
			return nil
		}
		entries, err := backupstore.New(store).List(ctx)
		if err != nil {
			return nil
		}
		for _, e := range entries[:min(len(entries), mostOffered)] {
			out = append(out, e.Name.String())
		}
		return out
	}
	o := askedReport(ctx, c).Observation
	if o == nil {
		return nil
	}
	for _, b := range o.Backups.Newest {
		what := ""
		if !b.Version.IsZero() {
			what = "etcd " + b.Version.String()
		}
		out = append(out, described(b.Name, what))
	}
	return out
}

// knownVersions are the lines and their newest patches.
func knownVersions(context.Context, *cobra.Command) (out []string) {
	for _, l := range slices.Backward(cluster.Lines()) {
		newest := l.Release(l.Newest).String()
		out = append(out, newest, described(l.String(), "its newest patch: "+newest))
	}
	return out
}

// wantedVersions are what the hosts of the cluster have, and else what is known.
func wantedVersions(ctx context.Context, c *cobra.Command) (out []string) {
	o := askedReport(ctx, c).Observation
	if o == nil {
		return knownVersions(ctx, c)
	}
	var all []cluster.Version
	for i := range o.Hosts {
		all = append(all, o.Hosts[i].Releases...)
	}
	slices.SortFunc(all, func(a, b cluster.Version) int { return b.Compare(a) })
	for _, v := range slices.Compact(all) {
		out = append(out, described(v.String(), "on a host of the cluster"))
	}
	return out
}

func queuedNames(ctx context.Context, c *cobra.Command) (out []string) {
	for _, q := range askedReport(ctx, c).Queue {
		out = append(out, described(q.Command, string(q.Kind)+" "+q.What))
	}
	return out
}

func tokenIDs(ctx context.Context, _ *cobra.Command) (out []string) {
	folder, err := tokenFolder(ctx, setup.Paths{})
	if err != nil {
		return nil
	}
	all, err := folder.Tokens().All(ctx)
	if err != nil {
		return nil
	}
	for _, one := range all {
		out = append(out, described(one.ID, cmp.Or(one.Description, string(one.State(time.Now())))))
	}
	return out
}

func optionNames(_ context.Context, c *cobra.Command) (out []string) {
	for _, o := range cluster.Options() {
		name := o.Name
		if c.Name() == "set" {
			name += "="
		}
		if o.Settable() {
			out = append(out, name)
		}
	}
	return out
}

func alarmKinds(context.Context, *cobra.Command) []string {
	return []string{cluster.AlarmNoSpace, cluster.AlarmCorrupt}
}

func textOrJSON(context.Context, *cobra.Command) []string { return []string{"text", "json"} }

func outputs(context.Context, *cobra.Command) []string { return []string{"table", "json", "yaml"} }

// issuePurposes are whom certificates are issued for into places of their own.
func issuePurposes(context.Context, *cobra.Command) []string {
	return []string{
		certs.ForAPIServer + "\tkubeadm's external etcd", certs.ForHealthcheck + "\tkubeadm's probe", certs.ForEtcdctl + "\tetcd's user root",
	}
}
