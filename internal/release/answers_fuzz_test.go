package release

import (
	"net/http"
	"testing"
)

// FuzzRange: whatever a server says of the part that it sends, it begins where it was
// asked for, and its whole is as long as it says or is not known.
func FuzzRange(f *testing.F) {
	f.Add(206, "bytes 5-9/10", int64(5))
	f.Add(206, "bytes 0-9/*", int64(5))
	f.Add(206, "bytes 5-/99999999999999999999", int64(5))
	f.Add(200, "", int64(0))
	f.Add(416, "bytes */10", int64(10))
	f.Add(302, "/", int64(-1))
	f.Fuzz(func(t *testing.T, code int, said string, offset int64) {
		total, err := answered(&http.Response{StatusCode: code, Status: http.StatusText(code), ContentLength: 10, Header: http.Header{"Content-Range": {said}}}, offset)
		if err == nil && (code != http.StatusOK && code != http.StatusPartialContent || code == http.StatusOK && total != 10 || total < -1) {
			t.Fatalf("%d with %q is %d bytes", code, said, total)
		}
	})
}
