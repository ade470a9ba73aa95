// Command gen writes the Go code of peer.proto into the directory above. With -check it writes nothing and
// fails when the code there is not what it would write.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "peer.proto"
	target = ".." // the command runs in its own directory: go run -C gen .
)

func main() {
	check := flag.Bool("check", false, "compare instead of write")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{target}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	files, err := compiler.Compile(ctx, source)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	}
	var stale []error
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		generated, err := generate(ctx, plugin, request)
		if err != nil {
			return err
		}
		for _, f := range generated {
			path := filepath.Join(target, f.GetName())
			if !check {
				if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
					return err
				}
				continue
			}
			if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, []byte(f.GetContent())) {
				stale = append(stale, fmt.Errorf("%s is not current: run go generate ./internal/peer/peerpb", f.GetName()))
			}
		}
	}
	return errors.Join(stale...)
}

// generate runs one plug-in, pinned by a tool line of go.mod.
func generate(ctx context.Context, plugin string, request proto.Message) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", plugin, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("run %s: %s", plugin, response.GetError())
	}
	return response.GetFile(), nil
}
