package keycopy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/progress"
)

// fallsSilent is an etcd of version 2 that sends so much of its listing, and then nothing.
type fallsSilent struct {
	listing string
	ctx     context.Context
	read    *strings.Reader
}

func (f *fallsSilent) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.ctx = r.Context(); f.listing == "" {
		<-f.ctx.Done()
		return nil, f.ctx.Err()
	}
	f.read = strings.NewReader(f.listing)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Etcd-Index": {"7"}}, Body: io.NopCloser(f)}, nil
}

func (f *fallsSilent) Read(p []byte) (int, error) {
	if f.read.Len() == 0 {
		<-f.ctx.Done()
		return 0, f.ctx.Err()
	}
	return f.read.Read(p)
}

const twoKeys = `{"action":"get","node":{"dir":true,"nodes":[{"key":"/a","value":"1"},{"key":"/b","value":"2"}`

// A hung listing is given up, with how far it came; the time that is taken
// for what is done with its keys is not etcd's.
func TestAListingThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sent, want string
		bound            time.Duration
		keys             int64
	}{
		{"before the first byte", "", "for 10m0s, after 0 keys in 0 bytes", listTimeout, 0},
		{"between two keys", twoKeys, "for 1m0s, after 2 keys in 93 bytes", pageTimeout + 2*time.Hour, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &v2{web: &web{base: &url.URL{Scheme: "http", Host: "192.0.2.1:2379"}, client: &http.Client{Transport: &fallsSilent{listing: c.sent}}}}
				var told int64
				ctx, end := progress.Tell(t.Context(), progress.Words{
					First: time.Minute, Most: time.Minute, Waits: func(string) {},
					Still: func(s *progress.Step, _ time.Duration) { told = s.Done() },
				})
				defer end()
				began := time.Now()
				_, err := s.walk(ctx, v2Visitor{
					key: func(string, string, int64) error { time.Sleep(time.Hour); return nil },
					dir: func(v2Dir) error { return nil },
				})
				end()
				if took := time.Since(began); took != c.bound || !errors.Is(err, errSilent) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it ended after %s with %v, want %q after %s", took, err, c.want, c.bound)
				}
				if told != c.keys {
					t.Errorf("%d keys were told", told)
				}
			})
		})
	}
}

// Whoever calls a listing off has it called off, and hears that.
func TestAListingThatIsCalledOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &v2{web: &web{base: &url.URL{Scheme: "http", Host: "192.0.2.1:2379"}, client: &http.Client{Transport: &fallsSilent{listing: twoKeys}}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.walk(ctx, v2Visitor{key: func(string, string, int64) error { return nil }, dir: func(v2Dir) error { return nil }})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// ended is a listing whose answer is there.
func ended(t *testing.T) *listing { return &listing{ctx: t.Context()} }
