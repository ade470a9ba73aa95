package peer

import (
	"errors"
	"testing"
)

// Without TLS no credentials are sent: not even to be refused.
func TestNoCredentialsInClear(t *testing.T) {
	c := &Client{plain: true}
	for _, r := range []KeepRequest{
		{Move: &MoveRequest{DryRun: true, Variables: map[string]string{"S3_ACCESS_KEY_ID": "k"}}},
		{Offer: &Offer{Variables: map[string]string{"S3_ACCESS_KEY_ID": "k"}}},
	} {
		func() {
			defer func() {
				if recover() != nil {
					t.Error("it was sent")
				}
			}()
			if _, err := c.Keep(t.Context(), r); !errors.Is(err, ErrIdentity) {
				t.Error(err)
			}
		}()
	}
}
