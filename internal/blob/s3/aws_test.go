package s3

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// answers is a client for Amazon's addresses: it gives canned answers, by host and path.
type answers struct {
	t     *testing.T
	mu    sync.Mutex // guards asked
	asked []string
	say   func(*http.Request) (status int, header map[string]string, body string)
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Host+r.URL.Path)
	a.mu.Unlock()
	status, header, body := a.say(r)
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r, ContentLength: int64(len(body))}
	for name, value := range header {
		response.Header.Set(name, value)
	}
	return response, nil
}

func amazon(t *testing.T, url string, a *answers) *Store {
	t.Helper()
	for _, name := range []string{"S3_ENDPOINT", "S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("S3_ACCESS_KEY_ID", "id")
	t.Setenv("S3_SECRET_ACCESS_KEY", "secret")
	return amazonHere(t, url, a)
}

// amazonHere is amazon with the environment that is there.
func amazonHere(t *testing.T, url string, a *answers) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.aws.HTTPClient, s.patient = a, a
	return s
}

const noSuchKey = `<Error><Code>NoSuchKey</Code><Message>no</Message></Error>`

// Without a region, S3 is asked once where the bucket is, and then the bucket's own region.
func TestRegionIsFound(t *testing.T) {
	a := &answers{t: t, say: func(r *http.Request) (int, map[string]string, string) {
		if r.Method == http.MethodHead {
			if r.Header.Get("Authorization") != "" {
				t.Error("credentials are sent where it is only asked for the region")
			}
			return http.StatusForbidden, map[string]string{regionHeader: "eu-central-1"}, ""
		}
		return http.StatusNotFound, nil, noSuchKey
	}}
	s := amazon(t, "s3://my.bucket/folder", a)
	for range 2 {
		if _, _, err := blob.ReadAll(t.Context(), s, "x", 10); !errors.Is(err, blob.ErrNotFound) {
			t.Fatal(err)
		}
	}
	want := "HEAD s3.amazonaws.com/my.bucket, GET s3.eu-central-1.amazonaws.com/my.bucket/folder/x, GET s3.eu-central-1.amazonaws.com/my.bucket/folder/x"
	if got := strings.Join(a.asked, ", "); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
}

func TestRegionIsSaid(t *testing.T) {
	a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) { return http.StatusNotFound, nil, noSuchKey }}
	s := amazon(t, "s3://bucket?region=cn-north-1", a)
	if _, _, err := blob.ReadAll(t.Context(), s, "x", 10); !errors.Is(err, blob.ErrNotFound) {
		t.Fatal(err)
	}
	if got := strings.Join(a.asked, ", "); got != "GET bucket.s3.cn-north-1.amazonaws.com.cn/x" {
		t.Errorf("asked %s", got)
	}
}

// The partitions of China and of the US government know only their own buckets.
func TestRegionIsFoundInItsPartition(t *testing.T) {
	for base, want := range map[string]string{
		"cn-north-1": "HEAD s3.cn-north-1.amazonaws.com.cn/bucket", "us-gov-west-1": "HEAD s3.us-gov-west-1.amazonaws.com/bucket", "eu-west-1": "HEAD s3.amazonaws.com/bucket",
	} {
		a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) {
			return http.StatusNotFound, map[string]string{regionHeader: base}, noSuchKey
		}}
		s := amazon(t, "s3://bucket", a)
		s.aws.Region = base
		if _, _, err := blob.ReadAll(t.Context(), s, "x", 10); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", base, err)
		}
		if len(a.asked) == 0 || a.asked[0] != want {
			t.Errorf("%s: asked %q, want %s first", base, a.asked, want)
		}
	}
}

// A store that made checksums of the parts sees them again when they are put together.
func TestChecksumsOfParts(t *testing.T) {
	checksums := []string{"CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"}
	var completed string
	a := &answers{t: t, say: func(r *http.Request) (int, map[string]string, string) {
		var body []byte
		if r.Body != nil {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
		}
		query := r.URL.Query()
		switch {
		case query.Has("uploads"):
			return 200, nil, `<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>`
		case query.Has("partNumber"):
			header := map[string]string{"ETag": `"part"`}
			for _, c := range checksums {
				header["x-amz-checksum-"+strings.ToLower(c)] = "of-" + c + "-" + query.Get("partNumber")
			}
			return 200, header, ""
		}
		completed = string(body)
		return 200, nil, `<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`
	}}
	s := amazon(t, "s3://bucket?region=us-east-1", a)
	if tag, err := blob.PutBytes(t.Context(), s, "x", make([]byte, remote.PartSize+1), blob.Any); err != nil || tag != `"whole"` {
		t.Fatal(tag, err)
	}
	for _, c := range checksums {
		for _, part := range []string{"1", "2"} {
			if want := "<Checksum" + c + ">of-" + c + "-" + part + "<"; !strings.Contains(completed, want) {
				t.Errorf("there is no %s in %s", want, completed)
			}
		}
	}
}

// Each of the services is reached at its own address in the region that was said.
func TestServices(t *testing.T) {
	for scheme, want := range map[string]string{
		"do": "GET region.digitaloceanspaces.com/bucket/x", "linode": "GET region.linodeobjects.com/bucket/x",
		"hos": "GET region.your-objectstorage.com/bucket/x", "scw": "GET s3.region.scw.cloud/bucket/x",
	} {
		a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) { return http.StatusNotFound, nil, noSuchKey }}
		if _, _, err := blob.ReadAll(t.Context(), amazon(t, scheme+"://bucket?region=region", a), "x", 10); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", scheme, err)
		}
		if got := strings.Join(a.asked, ", "); got != want {
			t.Errorf("%s: asked %s, want %s", scheme, got, want)
		}
	}
}

// A server of others is asked for the bucket by its path, or by its name where the URL says
// so or the endpoint has the bucket's name in front.
func TestStyles(t *testing.T) {
	for query, want := range map[string]string{
		"endpoint=https://s3.example.com":                       "GET s3.example.com/backups/x",
		"endpoint=https://s3.example.com&style=path":            "GET s3.example.com/backups/x",
		"endpoint=https://s3.example.com&style=virtual":         "GET backups.s3.example.com/x",
		"endpoint=https://s3.example.com:9000&style=virtual":    "GET backups.s3.example.com:9000/x",
		"endpoint=https://backups.s3.example.com":               "GET backups.s3.example.com/x",
		"endpoint=https://backups.s3.example.com&style=virtual": "GET backups.s3.example.com/x",
		"endpoint=https://backups.s3.example.com&style=path":    "GET backups.s3.example.com/backups/x",
		"endpoint=https://backups.example.com":                  "GET backups.example.com/backups/x",
		"endpoint=https://backups.example.com&style=virtual":    "GET backups.example.com/x",
		"endpoint=https://backupserver.s3.example.com":          "GET backupserver.s3.example.com/backups/x",
		"region=eu-west-1&style=virtual":                        "GET backups.s3.eu-west-1.amazonaws.com/x",
	} {
		a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) { return http.StatusNotFound, nil, noSuchKey }}
		if _, _, err := blob.ReadAll(t.Context(), amazon(t, "s3://backups?"+query, a), "x", 10); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", query, err)
		}
		if got := strings.Join(a.asked, ", "); got != want {
			t.Errorf("%s: asked %s, want %s", query, got, want)
		}
	}
	a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) { return http.StatusNotFound, nil, noSuchKey }}
	t.Setenv(envEndpoint, "https://backups.s3.example.com")
	for query, want := range map[string]string{
		"": "GET backups.s3.example.com/backups/x", "?style=virtual": "GET backups.s3.example.com/x",
		"?endpoint=https://backups.s3.other.example": "GET backups.s3.other.example/x",
	} {
		a.asked = nil
		if _, _, err := blob.ReadAll(t.Context(), amazonHere(t, "s3://backups"+query, a), "x", 10); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", query, err)
		}
		if got := strings.Join(a.asked, ", "); got != want {
			t.Errorf("with $S3_ENDPOINT, %q: asked %s, want %s", query, got, want)
		}
	}
	if err := Check("s3://backups?style=hosted", Options{}); err == nil || !strings.Contains(err.Error(), "style=hosted is not known") {
		t.Errorf("%v", err)
	}
}

// What S3 answers, and what becomes of it.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status   int
		header   map[string]string
		body     string
		sentinel error
		words    string
		hint     string
	}{
		"object lock": {403, nil, `<Error><Code>AccessDenied</Code><Message>Access Denied because object protected by object lock.</Message></Error>`, blob.ErrRetained, "object lock", ""},
		"worm":        {400, nil, `<Error><Code>InvalidRequest</Code><Message>Object is WORM protected and cannot be overwritten</Message></Error>`, blob.ErrRetained, "WORM", ""},
		"denied":      {403, nil, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`, blob.ErrForbidden, "AccessDenied", "s3:ListBucket"},
		"skewed":      {403, nil, `<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>`, nil, "RequestTimeTooSkewed", "clock"},
		"expired":     {400, nil, `<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>`, blob.ErrForbidden, "ExpiredToken", "session token"},
		"invalid":     {400, nil, `<Error><Code>InvalidToken</Code><Message>The token is malformed.</Message></Error>`, blob.ErrForbidden, "InvalidToken", "session token"},
		"refresh":     {400, nil, `<Error><Code>TokenRefreshRequired</Code><Message>The token must be refreshed.</Message></Error>`, blob.ErrForbidden, "TokenRefreshRequired", "session token"},
		"nobody":      {403, nil, `<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist.</Message></Error>`, blob.ErrForbidden, "InvalidAccessKeyId", "check the access key"},
		"elsewhere":   {301, map[string]string{regionHeader: "us-west-2"}, `<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message></Error>`, nil, "PermanentRedirect", "region=us-west-2"},
		"no bucket":   {404, nil, `<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>`, nil, "NoSuchBucket", "create the bucket"},
		"full":        {403, nil, `<Error><Code>QuotaExceeded</Code><Message>no more</Message></Error>`, nil, "QuotaExceeded", "quota raised"},
		"full, too":   {400, nil, `<Error><Code>XMinioAdminBucketQuotaExceeded</Code><Message>no more</Message></Error>`, nil, "Quota", "make room"},
		"no room":     {507, nil, "", nil, "507", "make room"},
		"a login":     {302, map[string]string{"Location": "https://login.example.com"}, "<html>log in", nil, "302", "a proxy"},
		"no XML":      {403, nil, "<html>\n<body>a proxy's page", blob.ErrForbidden, "403", "s3:GetObject"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) { return test.status, test.header, test.body }}
			err := amazon(t, "s3://bucket?region=us-east-1", a).Delete(t.Context(), "x")
			if err == nil || !strings.Contains(err.Error(), test.words) || test.sentinel != nil && !errors.Is(err, test.sentinel) {
				t.Fatalf("%v, want %v with %q", err, test.sentinel, test.words)
			}
			if strings.Contains(err.Error(), "\n") || len(a.asked) != 1 && test.status < 500 {
				t.Errorf("%q after %d requests", err, len(a.asked))
			}
			if told, ok := errors.AsType[*blob.Error](err); test.hint != "" && (!ok || !strings.Contains(told.Hint(), test.hint)) {
				t.Errorf("the hint of %v has not %q", err, test.hint)
			}
		})
	}
}

// A page in place of an answer of S3, as a proxy gives one, is no listing without
// objects, and no object either.
func TestPagesAreNoAnswers(t *testing.T) {
	for _, page := range []string{"", "<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>", "<html><body>Please log in</body></html>"} {
		a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) {
			return http.StatusOK, map[string]string{"Content-Type": "text/html"}, page
		}}
		s := amazon(t, "s3://bucket?region=us-east-1", a)
		infos, listed := s.List(t.Context(), "")
		_, _, read := blob.ReadAll(t.Context(), s, "x", 10)
		_, put := blob.PutBytes(t.Context(), s, "x", nil, blob.Any)
		for what, err := range map[string]error{"list": listed, "read": read, "put": put} {
			told, ok := errors.AsType[*blob.Error](err)
			if !ok || !strings.Contains(told.Hint(), "a proxy") || errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s, answered with %q: %v %v", what, page, infos, err)
			}
		}
	}
}

// A store that does not know conditions says so, and one that is busy with another write is asked again.
func TestConditionalAnswers(t *testing.T) {
	a := &answers{t: t, say: func(*http.Request) (int, map[string]string, string) {
		return 501, nil, `<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented</Message></Error>`
	}}
	s := amazon(t, "s3://bucket?region=us-east-1", a)
	if _, err := blob.PutBytes(t.Context(), s, "x", nil, blob.IfAbsent); !errors.Is(err, blob.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "x", nil, blob.Any); err == nil || errors.Is(err, blob.ErrUnsupported) {
		t.Error(err)
	}
	n := 0
	a.say = func(*http.Request) (int, map[string]string, string) {
		if n++; n == 1 {
			return 409, nil, `<Error><Code>ConditionalRequestConflict</Code><Message>conflict</Message></Error>`
		}
		return 412, nil, `<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>`
	}
	if _, err := blob.PutBytes(t.Context(), s, "x", nil, blob.IfAbsent); !errors.Is(err, blob.ErrPreconditionFailed) {
		t.Errorf("a conflict, and then a refusal: %v", err)
	}
}
