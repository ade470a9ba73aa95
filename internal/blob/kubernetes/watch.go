package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"etcdadm.io/internal/wake"
)

const (
	// watchTime is how long the server keeps up one watch.
	watchTime = 5 * time.Minute
	// watchStall is when a connection without a byte is cut: after the server's end of a quiet watch. Requests have their own time.
	watchStall = watchTime + time.Minute
)

// Notify implements control.Notifier, for changes of the ConfigMap that the cluster lives by. The first value comes when the watch has
// begun, so that nothing is missed between two of them.
func (s *Store) Notify(ctx context.Context, _ string) (<-chan struct{}, error) {
	told := make(chan struct{}, 1)
	go func() {
		defer close(told)
		s.watch(ctx, told) // the caller begins another one
	}()
	return told, nil
}

func (s *Store) watch(ctx context.Context, told chan<- struct{}) {
	answer, err := s.api.ask(ctx, http.MethodGet, s.path(""), url.Values{
		"watch": {"1"}, "fieldSelector": {"metadata.name=" + s.Control()}, "timeoutSeconds": {strconv.Itoa(int(watchTime.Seconds()))},
	}, nil)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); ; {
		var event struct {
			Type string `json:"type"`
		}
		if events.Decode(&event) != nil || event.Type == "ERROR" {
			return
		}
		wake.Up(told)
	}
}
