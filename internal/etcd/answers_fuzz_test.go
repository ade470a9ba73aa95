package etcd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"etcdadm.io/cluster"
)

// answers is an etcd that says what a test wants, by path.
type answers func(path string) (code int, header http.Header, body string)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, header, body := a(r.URL.Path)
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Header: header,
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func (a answers) client() *http.Client { return &http.Client{Transport: a} }

// noAuth says that there are no passwords.
type noAuth struct{ pb.AuthClient }

func (noAuth) Authenticate(context.Context, *pb.AuthenticateRequest, ...grpc.CallOption) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}

// mostWords bounds what an error may repeat of an answer, in bytes: it goes into logs
// and observations.
const mostWords = 2000

func checkWords(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil && (err.Error() == "" || len(err.Error()) > mostWords) {
			t.Fatalf("an error of %d bytes: %.300s", len(err.Error()), err)
		}
	}
}

// FuzzV2Answers: whatever a member of etcd 2 answers, its status and its members are
// read, or refused in a few words; who is listed has an ID, and a change that did not
// succeed is never one that did.
func FuzzV2Answers(f *testing.F) {
	const members = `{"members":[{"id":"8e9e05c52164694d","name":"a","peerURLs":["http://192.0.2.1:2380"],"clientURLs":["http://192.0.2.1:4001"]},{"id":"2","name":"","peerURLs":["http://192.0.2.2:2380"],"clientURLs":[]}]}`
	const self = `{"name":"a","id":"8e9e05c52164694d","state":"StateLeader","startTime":"2026-11-20T23:08:18Z","leaderInfo":{"leader":"8e9e05c52164694d","uptime":"1s","startTime":"2026-11-20T23:08:18Z"},"recvAppendRequestCnt":0,"sendAppendRequestCnt":0}`
	f.Add(200, `{"etcdserver":"2.3.8","etcdcluster":"2.3.0"}`, self, members, "cdf818194e3a8c32", "7", "9", "2")
	f.Add(200, `{"etcdserver":"2.2.1"}`, `{"id":"","leaderInfo":{}}`, `{"members":null}`, "", "", "", "")
	f.Add(409, "", "", `{"message":"etcdserver: ID exists"}`, "0", "18446744073709551616", "-1", "x")
	f.Add(500, "null", "[]", `{"message":"etcdserver: re-configuration failed due to not enough started members"}`, "g", "1", "1", "1")
	f.Add(201, "{", self, `{"id":"`+strings.Repeat("f", 3000)+`"}`, strings.Repeat("0", 3000), "1", "1", strings.Repeat("9", 3000))
	f.Fuzz(func(t *testing.T, code int, version, self, members, id, revision, index, term string) {
		if code < 100 || code > 599 {
			return
		}
		say := answers(func(path string) (int, http.Header, string) {
			h := http.Header{"X-Etcd-Cluster-Id": {id}, "X-Etcd-Index": {revision}, "X-Raft-Index": {index}, "X-Raft-Term": {term}}
			switch path {
			case "/version":
				return code, h, version
			case "/v2/stats/self":
				return code, h, self
			}
			return code, h, members
		})
		c := &V2{endpoint: "http://192.0.2.1:4001", web: say.client()}
		ctx := t.Context()
		s, err := c.Status(ctx)
		checkWords(t, err)
		for _, said := range s.Errors {
			checkWords(t, errors.New(said))
		}
		if err == nil && (s.Member == 0 || s.Cluster == 0 || s.Version.IsZero() || s.Healthy && s.Leader == 0) {
			t.Fatalf("status %+v", s)
		}
		v, err := c.View(ctx, true)
		checkWords(t, err)
		if err != nil && v.Linearizable {
			t.Fatalf("a list that was not read is linearizable: %v", err)
		}
		for _, m := range v.Members {
			if m.ID == 0 || err == nil && v.Cluster == 0 || !slices.IsSorted(m.PeerURLs) {
				t.Fatalf("members %+v", v)
			}
		}
		added, err := c.AddMember(ctx, []string{"http://192.0.2.3:2380"}, false)
		checkWords(t, err)
		if err == nil && (added.ID == 0 || code/100 != 2) {
			t.Fatalf("%d, and added %+v", code, added)
		}
		if err != nil && code/100 != 4 && !strings.Contains(members, "not enough started") && !errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("%d, and the member was not added for sure: %v", code, err)
		}
		err = c.Remove(ctx, 7)
		checkWords(t, err)
		if (err == nil) != (code/100 == 2) {
			t.Fatalf("%d, and removed: %v", code, err)
		}
	})
}

// FuzzPeerAnswers: whatever is told at a member's peer port, and by its metrics, is
// read, or refused in a few words.
func FuzzPeerAnswers(f *testing.F) {
	const gauge = "# HELP etcd_server_quota_backend_bytes Current backend storage quota size in bytes.\n# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 8.589934592e+09\n"
	f.Add(`{"etcdserver":"3.5.35","etcdcluster":"3.5.0"}`, "true", `[{"id":1,"peerURLs":["http://192.0.2.1:2380"],"name":"a","clientURLs":["http://192.0.2.1:2379"]},{"isLearner":true,"clientURLs":["x"]}]`, gauge, "memberID:1 alarm:NOSPACE ")
	f.Add(`{"etcdserver":"3.4.25","etcdcluster":"not_decided"}`, "", `null`, "etcd_server_quota_backend_bytes NaN\n", `alarm: CORRUPT memberID: 99999999999999999999`)
	f.Add(`{"etcdserver":"2.3.8"}`, strings.Repeat("1", 3000), `[{"clientURLs":[null,7]}]`, "etcd_server_quota_backend_bytes -1e99", "etcdserver: no leader")
	f.Add(`{"etcdserver":"3.6.16","etcdcluster":"3.6"}`, "false\n", `{}`, "etcd_server_quota_backend_bytes "+strings.Repeat("7", 3000), "alarm:X")
	f.Fuzz(func(t *testing.T, version, downgrade, members, metrics, alarm string) {
		say := answers(func(path string) (int, http.Header, string) {
			switch path {
			case "/version":
				return 200, nil, version
			case "/downgrade/enabled":
				return 200, nil, downgrade
			case "/metrics":
				return 200, nil, metrics
			}
			return 200, nil, members
		}).client()
		ctx := t.Context()
		c := &Client{peer: "http://192.0.2.1:2380", http: say, auth: noAuth{}}
		_, err := c.Agreed(ctx)
		_, votersErr := votersAt(ctx, say, "http://192.0.2.1:2380")
		quota, quotaErr := measuredQuota(ctx, say, "http://192.0.2.1:2379")
		checkWords(t, err, votersErr, quotaErr)
		if quotaErr == nil && quota == 0 {
			t.Fatalf("%q is a quota of nothing", metrics)
		}
		alarms, others := splitErrors([]string{alarm})
		if len(alarms)+len(others) != 1 {
			t.Fatalf("%q is %q and %q", alarm, alarms, others)
		}
		for _, a := range alarms {
			if read := cluster.ParseAlarm(a); read.Kind == "" || strings.Contains(read.Kind, " ") {
				t.Fatalf("%q is %q, and that is %+v", alarm, a, read)
			}
		}
	})
}
