package decide

import "fmt"

// Copy is how far a Job is that brings a backup into the cluster's store.
type Copy struct {
	// Job is its name, and From where the backup comes from, for people.
	Job, From string
	// There: it was made. Done: the backup is in the cluster's store.
	There, Done bool
	// Failed is why it ended without; empty: it did not.
	Failed string
	// Lacks is why it is not made yet; empty: it can be.
	Lacks string
	// Waits is what its pod waits for, as far as that says; empty: it is at work.
	Waits string
}

// Words say what a backup waits for.
func (c *Copy) Words(backup string) string {
	words := fmt.Sprintf("backup %s is fetched from %s", backup, c.From)
	switch {
	case c.Lacks != "":
		return words + ": " + c.Lacks
	case c.Waits != "":
		return fmt.Sprintf("%s by the Job %s: %s", words, c.Job, c.Waits)
	case c.There:
		return fmt.Sprintf("%s by the Job %s", words, c.Job)
	}
	return words
}

// copied says whether the backup that a new cluster begins with is in its store, and has it brought there.
func (w *World) copied(d *Decision, backup string) bool {
	c := w.Copy
	switch {
	case c == nil:
		return !w.Want.From.Elsewhere
	case c.Done:
		return true
	case c.Failed != "":
		d.Waits = append(d.Waits, Wait{
			Code: BootstrapFailed, Command: w.Kubectl("delete job " + c.Job),
			Sentence: fmt.Sprintf("the cluster is to begin with backup %s, which was not fetched from %s: %s. Change spec.bootstrap; or mend that, and delete the Job %s to have it tried again", backup, c.From, c.Failed, c.Job),
		})
		return false
	case !c.There && c.Lacks == "":
		d.do(Step{Kind: CopyBackup, Begin: backup, Why: "the cluster begins with backup " + backup + ", which is fetched first"})
	}
	d.Waits = append(d.Waits, Wait{Code: BootstrapWaits, Sentence: c.Words(backup), Stands: c.Lacks != ""})
	return false
}
