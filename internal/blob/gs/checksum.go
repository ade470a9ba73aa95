package gs

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strings"

	"etcdadm.io/internal/blob/remote"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC32C of an object as the service writes it.
func checksum(data []byte) string { return encode(crc32.Checksum(data, castagnoli)) }

func encode(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// errChecksum says that an object did not come as the service has it.
var errChecksum = errors.New("the object's checksum is not the one that the store has: it was damaged on the way")

// checkedBody compares, at the end of an object, its checksum with the one that the service told.
type checkedBody struct {
	*remote.Body
	want string // empty: it told none
	sum  uint32
}

func checked(body *remote.Body, header http.Header) *checkedBody {
	b := &checkedBody{Body: body}
	for _, line := range header.Values("X-Goog-Hash") {
		for hash := range strings.SplitSeq(line, ",") {
			if want, ok := strings.CutPrefix(strings.TrimSpace(hash), "crc32c="); ok {
				b.want = want
			}
		}
	}
	return b
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	b.sum = crc32.Update(b.sum, castagnoli, p[:n])
	if errors.Is(err, io.EOF) && b.want != "" && b.want != encode(b.sum) {
		return n, errChecksum
	}
	return n, err
}
