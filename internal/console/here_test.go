package console

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whom the data directory of this machine has asked, and whom it has not.
func TestHere(t *testing.T) {
	for name, c := range map[string]struct {
		access  *Access
		refused *Refusal
		named   string
		want    func(error) bool
	}{
		"nothing":                {nil, nil, "", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"it never ran":           {nil, &Refusal{Why: "no"}, "", isStart},
		"this machine's":         {&Access{Cluster: "c", Endpoints: []string{"127.0.0.1:1"}}, nil, "", isNil},
		"by its name":            {&Access{Cluster: "c", Endpoints: []string{"127.0.0.1:1"}}, nil, "c", isNil},
		"by another name":        {&Access{Cluster: "c", Endpoints: []string{"127.0.0.1:1"}}, nil, "d", isDisk},
		"it ran, and ended":      {&Access{Cluster: "c", Endpoints: []string{"127.0.0.1:1"}}, &Refusal{Cluster: "c", Why: "no"}, "", isNil},
		"started for another":    {&Access{Cluster: "c", Endpoints: []string{"127.0.0.1:1"}}, &Refusal{Cluster: "d", Why: "no"}, "", isStart},
		"an image":               {&Access{Cluster: "c", Endpoints: []string{"192.0.2.7:1"}}, nil, "", isDisk},
		"behind a NAT":           {&Access{Cluster: "c", Endpoints: []string{"192.0.2.7:1"}}, &Refusal{Cluster: "c", Why: "no"}, "", isStart},
		"an image, another name": {&Access{Cluster: "c", Endpoints: []string{"192.0.2.7:1"}}, &Refusal{Cluster: "c", Why: "no"}, "d", isDisk},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			state := filepath.Join(dir, "etcdadm")
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.access != nil {
				if err := c.access.Write(state); err != nil {
					t.Fatal(err)
				}
			}
			if c.refused != nil {
				c.refused.At = time.Now()
				if err := KeepRefusal(dir, *c.refused); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Here(dir, c.named); !c.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func isNil(err error) bool { return err == nil }

func isStart(err error) bool {
	told := (*StartError)(nil)
	return errors.As(err, &told) && told.Hint() != ""
}

func isDisk(err error) bool {
	told := (*DiskError)(nil)
	return errors.As(err, &told) && told.Hint() != "" && errors.Is(err, ErrOtherDisk)
}
