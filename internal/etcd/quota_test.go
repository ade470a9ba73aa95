package etcd_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// Releases before 3.6 tell the quota by their metrics only.
func TestMeasuredQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version string
		args    []string
		want    int64
	}{
		"3.4, large":   {testetcd.V34, []string{"--quota-backend-bytes=8589934592"}, 8 << 30},
		"3.5, large":   {testetcd.V35, []string{"--quota-backend-bytes=8589934592"}, 8 << 30},
		"3.5, uneven":  {testetcd.V35, []string{"--quota-backend-bytes=3221225473"}, 3<<30 + 1},
		"3.5, default": {testetcd.V35, nil, 2 << 30},
		"3.5, none":    {testetcd.V35, []string{"--quota-backend-bytes=-1"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			m := testetcd.Start(t, testetcd.Config{Version: c.version, Args: c.args}).Members[0]
			for _, urls := range [][]string{{m.ClientURL}, {"http://127.0.0.1:1", m.ClientURL + "/"}} {
				got, err := etcd.MeasuredQuota(t.Context(), etcd.Config{Endpoints: urls})
				if err != nil || got != c.want {
					t.Errorf("at %v: %d, %v, want %d", urls, got, err, c.want)
				}
			}
		})
	}
}

// What is no quota is no quota, and nothing is read without an end.
func TestMeasuredQuotaFromOthers(t *testing.T) {
	t.Parallel()
	const gauge = "etcd_server_quota_backend_bytes"
	for name, c := range map[string]struct{ says, want string }{
		"nothing":       {"", "has no " + gauge},
		"another gauge": {gauge + "_more 7\n# TYPE " + gauge + " gauge\n", "has no " + gauge},
		"no number":     {gauge + " x\n", `is "x"`},
		"not a number":  {gauge + " NaN\n", `is "NaN"`},
		"infinite":      {gauge + " +Inf\n", `is "+Inf"`},
		"zero":          {gauge + " 0\n", `is "0"`},
		"a long line":   {strings.Repeat("x", 1<<20), "too long"},
		"no end":        {strings.Repeat("a 1\n", 2<<20) + gauge + " 7\n", "has no " + gauge},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.says) }))
			defer s.Close()
			got, err := etcd.MeasuredQuota(t.Context(), etcd.Config{Endpoints: []string{s.URL}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d, %v, want %q", got, err, c.want)
			}
		})
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	if got, err := etcd.MeasuredQuota(t.Context(), etcd.Config{Endpoints: []string{s.URL}}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%d, %v", got, err)
	}
}
