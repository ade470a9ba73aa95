package backupstore

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/s3"
	"etcdadm.io/internal/teststore"
)

// lockedBucket is a bucket of a real server that keeps every object for some
// hours, with a count of the requests that get there.
func lockedBucket(t *testing.T) (client *sdk.Client, store blob.Store, requests func() map[string]int) {
	t.Helper()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	var mu sync.Mutex
	counts := map[string]int{}
	proxy.Inject(func(r *http.Request) teststore.Fault {
		mu.Lock()
		defer mu.Unlock()
		counts[r.Method]++
		return teststore.Pass
	})
	requests = func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		was := counts
		counts = map[string]int{}
		return was
	}
	client = sdk.New(sdk.Options{
		BaseEndpoint: aws.String(server.URL), Region: teststore.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(teststore.AccessKey, teststore.SecretKey, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: aws.String("locked"), ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"S3_ENDPOINT": proxy.URL, "S3_REGION": teststore.Region,
		"S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey,
	} {
		t.Setenv(name, value)
	}
	store, err := s3.Open(t.Context(), "s3://locked/cluster", s3.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client, store, requests
}

// A bucket with object lock refuses to remove what the policy would. That is one
// error; the backups that nothing keeps go all the same; and the refused ones
// cost no request until a day later, when they are tried again.
func TestRetainedBackups(t *testing.T) {
	client, store, requests := lockedBucket(t)
	c := New(store)
	var names []backup.Name // newest first
	for i := range 6 {
		name, err := backup.NewName(noon.Add(-time.Duration(i)*time.Hour), i)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"etcd.backup.gz": "x", backup.FileManifest: string(backup.Manifest{}.Encode()), backup.FileMeta: `{"etcdVersion":"3.7.3"}`} {
			put(t, store, key(name, file), []byte(content))
			if i == 5 || i == 0 {
				continue // written before the lock, and the newest
			}
			retainFor(t, client, key(name, file), 48*time.Hour)
		}
		names = append(names, name)
	}
	requests()
	policy := backup.Policy{} // only the newest is kept
	_, err := c.Prune(t.Context(), policy, nil, noon)
	var refused *RemoveError
	if !errors.As(err, &refused) || !refused.OnlyRetained() || !slices.Equal(refused.Retained, []backup.Name{names[4], names[3], names[2], names[1]}) || !errors.Is(err, blob.ErrRetained) {
		t.Fatalf("the first time: %v", err)
	}
	if n := strings.Count(err.Error(), "object lock"); n > 1 {
		t.Errorf("%d times in %v", n, err)
	}
	if got := list(t, c); !slices.Equal(got, names[:5]) {
		t.Errorf("left are %q, want the first five of %q", got, names)
	}
	requests()
	for range 3 {
		verdicts, err := c.Prune(t.Context(), policy, nil, noon.Add(time.Hour))
		if err != nil {
			t.Errorf("again: %v", err)
		}
		for _, v := range verdicts[1:] {
			if !v.Keep || !slices.Equal(v.Rules, []backup.Rule{backup.KeptRetained}) {
				t.Errorf("again: %+v", v)
			}
		}
	}
	if n := requests(); n[http.MethodDelete] != 0 || n[http.MethodGet] != 3 {
		t.Errorf("three passes more took %v, want three listings", n)
	}
	retainFor(t, client, key(names[4], "etcd.backup.gz"), 0) // refused by the server: a retention is not shortened
	_, err = c.Prune(t.Context(), policy, nil, noon.Add(RetainedAgain+time.Hour))
	if n := requests(); !errors.As(err, &refused) || n[http.MethodDelete] != 4 {
		t.Errorf("a day later: %v after %v", err, n)
	}
	if got := list(t, c); !slices.Equal(got, names[:5]) {
		t.Errorf("a day later %q are left", got)
	}
}

// retainFor has the server keep an object; a time that is not later than the
// present one is an error to it, which is no matter here.
func retainFor(t *testing.T, client *sdk.Client, key string, how time.Duration) {
	t.Helper()
	_, err := client.PutObjectRetention(t.Context(), &sdk.PutObjectRetentionInput{
		Bucket: aws.String("locked"), Key: aws.String("cluster/" + key),
		Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeCompliance, RetainUntilDate: aws.Time(time.Now().Add(how))},
	})
	if err != nil && how > 0 {
		t.Fatal(err)
	}
}

// What a writer left behind in such a bucket is tried once a day, too.
func TestRetainedLeftovers(t *testing.T) {
	client, store, requests := lockedBucket(t)
	c := New(store)
	const half backup.Name = "2026-01-01T00:00:00Z-000001"
	put(t, store, key(half, "etcd.backup.gz"), []byte("half"))
	retainFor(t, client, key(half, "etcd.backup.gz"), 48*time.Hour)
	later := time.Now().Add(4 * time.Hour)
	var refused *RemoveError
	if left, err := c.CleanUp(t.Context(), 0, later); !errors.As(err, &refused) || !refused.OnlyRetained() || len(left) != 0 {
		t.Errorf("%q, %v", left, err)
	}
	requests()
	if left, err := c.CleanUp(t.Context(), 0, later.Add(time.Hour)); err != nil || len(left) != 0 || requests()[http.MethodDelete] != 0 {
		t.Errorf("again: %q, %v", left, err)
	}
	// A clock that was wrong does not have it forgotten for ever.
	c.retained.add(half, later.AddDate(10, 0, 0))
	if _, err := c.CleanUp(t.Context(), 0, later.Add(2*time.Hour)); !errors.As(err, &refused) {
		t.Errorf("after a wrong clock: %v", err)
	}
}
