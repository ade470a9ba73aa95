package rig

import (
	"context"
	"io"
	"net/http"
)

// Fetch reads a page of a host's metrics port.
func (h *Host) Fetch(ctx context.Context, path string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.C.Block.At(h.Place, PortMetrics)+path, nil)
	if err != nil {
		return 0, "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(body), err
}
