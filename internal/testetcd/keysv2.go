package testetcd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// KeysV2 reads all keys of version 2 of the API with their values, through a quorum.
// client may be nil.
func KeysV2(ctx context.Context, client *http.Client, clientURL string) (map[string]string, error) {
	if client == nil {
		client = http.DefaultClient
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, clientURL+"/v2/keys/?quorum=true&recursive=true", nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	type node struct {
		Key, Value string
		Dir        bool
		Nodes      []node
	}
	var said struct{ Node node }
	if err := json.NewDecoder(reply.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("read the keys of version 2: %w", err)
	}
	all := map[string]string{}
	var walk func(node)
	walk = func(n node) {
		if !n.Dir {
			all[n.Key] = n.Value
		}
		for _, below := range n.Nodes {
			walk(below)
		}
	}
	walk(said.Node)
	return all, nil
}
