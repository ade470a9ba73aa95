package cli

import (
	"errors"
	"maps"
	"testing"
)

// What is of a person's session or machine is not given to the hosts.
func TestVariablesOfASession(t *testing.T) {
	var s storeSet
	if err := s.take(map[string]string{"S3_ACCESS_KEY_ID": "k", "HTTPS_PROXY": "http://localhost:3128", "NO_PROXY": "x"}); err != nil || !maps.Equal(s.environment, map[string]string{"S3_ACCESS_KEY_ID": "k"}) {
		t.Errorf("%v %v", s.environment, err)
	}
	for _, name := range []string{"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		if f, ok := errors.AsType[*Failure](s.take(map[string]string{name: "x"})); !ok || f.Code != ExitUsage {
			t.Errorf("%s: %v", name, f)
		}
	}
}
