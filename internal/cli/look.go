package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
)

// askTimeout bounds a question to the daemons.
const askTimeout = 10 * time.Second

// leaderTimeout bounds the wait for a leading daemon. One that began a moment ago hears of the leader within a second;
// an election takes three or four.
const leaderTimeout = 5 * time.Second

// leaderInterval is between two questions for a leader: a quarter of the daemons' own interval, so that nobody waits long.
const leaderInterval = 250 * time.Millisecond

// led is the leading daemon's report. It waits up to leaderTimeout for a leader that answers.
func (r *reach) led(ctx context.Context) (console.Report, error) {
	report, err := r.status(ctx)
	for end := time.Now().Add(leaderTimeout); err == nil && report.Observation == nil && time.Now().Before(end) && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(leaderInterval):
			report, err = r.status(ctx)
		}
	}
	if err == nil && report.Observation == nil {
		why := fmt.Errorf("host %s does not lead, and the daemon that does is not in reach", report.Host)
		if report.Leading {
			why = fmt.Errorf("host %s leads, and has not looked at the cluster yet", report.Host)
		}
		err = &Failure{Code: ExitNotLeader, Err: why, Advice: "etcdadm status says what the daemons know"}
	}
	return report, err
}

// observation is the leader's newest, or the one in a file.
func (r *reach) observation(ctx context.Context, from string) (*cluster.Observation, error) {
	if from == "" {
		report, err := r.led(ctx)
		return report.Observation, err
	}
	data, err := readInput(ctx, from)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the observation: %w", err)
	}
	if err != nil {
		return nil, usage("save one with etcdadm status -o json", "read the observation: %w", err)
	}
	return parseObservation(data, from)
}

// parseObservation reads an observation, or the one in a status.
func parseObservation(data []byte, from string) (*cluster.Observation, error) {
	var report struct {
		Observation *cluster.Observation `json:"observation"`
	}
	if err := duration.FromJSON(data, &report); err != nil {
		return nil, unreadObservation(from, err)
	}
	if report.Observation != nil {
		return report.Observation, nil
	}
	var o cluster.Observation
	if err := duration.FromJSON(data, &o); err != nil {
		return nil, unreadObservation(from, err)
	}
	if o.Cluster == "" {
		return nil, usage("save one with etcdadm status -o json", "%s holds no observation", from)
	}
	o.Sort()
	return &o, nil
}

func unreadObservation(from string, err error) error {
	hint := "save one with etcdadm status -o json"
	if newer, ok := errors.AsType[*cluster.NewerError](err); ok {
		hint = newer.Hint()
	}
	return usage(hint, "read the observation in %s: %w", from, err)
}

// maxInput bounds, in bytes, what is read of an observation: one of ours has a few kilobytes a host.
const maxInput = 64 << 20

// readInput reads a file, a pipe that the shell made, or standard input, which is - and
// may be a terminal.
func readInput(ctx context.Context, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, maxInput))
	}
	data, _, err := regular.ReadOrPipe(ctx, name, maxInput)
	return data, err
}

// status asks the daemons.
func (r *reach) status(ctx context.Context) (console.Report, error) {
	c, err := r.open()
	if err != nil {
		return console.Report{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	report, err := noCluster(c.Status(ctx))
	if refused := r.refused(); err != nil && refused != nil {
		told := &console.StartError{Refusal: *refused, Err: err}
		return report, &Failure{Code: ExitNoCluster, Err: told, Advice: told.Hint()}
	}
	return report, err
}
