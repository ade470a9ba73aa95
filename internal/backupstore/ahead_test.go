package backupstore

import (
	"errors"
	"io"
	"testing"

	"etcdadm.io/backup"
)

// A store that stops before the end has not stored a backup, although all of the
// source may have been read by then; and nobody is left waiting.
func TestStoreThatStopsEarly(t *testing.T) {
	plain := backup.Encoding{Compression: backup.None}
	data := snapshotOf(2*copyBuffer, 3)
	for _, most := range []int64{0, 1, int64(len(data)) - 1, int64(len(data))} {
		p := pack(&piecewise{data: data}, plain, Recipients{}, false, nil)
		if n, err := io.CopyN(io.Discard, p, most); err != nil || n != most {
			t.Fatalf("%d bytes: %d, %v", most, n, err)
		}
		p.end()
		if !p.content.IsZero() {
			t.Errorf("after %d of %d bytes it is %+v", most, len(data), p.content)
		}
		if _, err := p.Read(make([]byte, copyBuffer)); most < copyBuffer && errors.Is(err, io.EOF) {
			t.Error("the stream has an end after it was closed")
		}
	}
	p := pack(&piecewise{data: data}, plain, Recipients{}, false, nil)
	n, err := io.Copy(io.Discard, p)
	p.end()
	if err != nil || n != int64(len(data)) || p.content.Size != n {
		t.Errorf("%d bytes of %d, %v: %+v", n, len(data), err, p.content)
	}
	broken := errors.New("the line is broken")
	p = pack(&piecewise{data: data, end: broken}, plain, Recipients{}, false, nil)
	n, err = io.Copy(io.Discard, p)
	p.end()
	if !errors.Is(err, broken) || n != int64(len(data)) || !p.content.IsZero() {
		t.Errorf("%d bytes, %v, %+v", n, err, p.content)
	}
	p = pack(&piecewise{data: data[:len(data)-1]}, plain, Recipients{}, false, nil)
	_, err = io.Copy(io.Discard, p)
	p.end()
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("cut by a byte: %v", err)
	}
}

// piecewise gives a little at a time, and its end together with the last of it.
type piecewise struct {
	data []byte
	end  error // nil: io.EOF
}

func (s *piecewise) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 10_007)], s.data)
	s.data = s.data[n:]
	switch {
	case len(s.data) > 0:
		return n, nil
	case s.end != nil:
		return n, s.end
	}
	return n, io.EOF
}
