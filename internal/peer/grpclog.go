package peer

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// LogTo has gRPC's own log, of which errors are told, go to a writer in place of standard error.
// It is called once, before anything of this package is used.
func LogTo(w io.Writer) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, w))
}
