package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. They are the same for all commands and part of the interface.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNoCluster   = 10
	ExitNotLeader   = 11
	ExitUnsafe      = 12 // refused, or a person did not confirm it
	ExitWaiting     = 13 // it goes on; the time that the caller gave it to end is up
	ExitDegraded    = 14
	ExitNoQuorum    = 15
	ExitExpiring    = 20
	ExitInterrupted = 130
)

// ExitCode is an exit code, and what it means.
type ExitCode struct {
	Code  int
	Means string
}

// ExitCodes are all exit codes: help and manual take their words from here, and a test holds
// docs/operations/install-and-run.md to them.
func ExitCodes() []ExitCode { return slices.Clone(exitCodes) }

var exitCodes = []ExitCode{
	{ExitOK, "done; of status: the cluster is well"},
	{ExitError, "error"},
	{ExitUsage, "wrong usage"},
	{ExitNoCluster, "no cluster, or no daemon answers"},
	{ExitNotLeader, "no leading daemon in reach"},
	{ExitUnsafe, "refused as unsafe, or not confirmed"},
	{ExitWaiting, "it goes on, and the time that --wait gave it is up"},
	{ExitDegraded, "of status: clients are served, and something needs a look: a voter is down or missing, an alarm is raised, or a blocker waits for a person"},
	{ExitNoQuorum, "of status: no quorum is up, or ordinary clients are kept out"},
	{ExitExpiring, "of certs list: a certificate needs a look: damaged, not trusted, replaced, not valid yet, expired, or ends soon"},
	{ExitInterrupted, "interrupted"},
}

// exitCodesHelp is the topic "etcdadm exit-codes".
func exitCodesHelp() *cobra.Command {
	var all strings.Builder
	for _, e := range exitCodes {
		fmt.Fprintf(&all, "  %-4d %s\n", e.Code, e.Means)
	}
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long:  "The exit codes are the same for all commands:\n\n" + strings.TrimSuffix(all.String(), "\n"),
	}
}
