package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// The predecessor reads and writes its files by protobuf's JSON mapping, and so
// does this reader of its messages: the same library, over the fields that its
// format has and no others. What it refuses, the predecessor's daemon refuses.
var theirs = predecessorMessages()

func predecessorMessages() protoreflect.MessageDescriptors {
	const (
		i32     = descriptorpb.FieldDescriptorProto_TYPE_INT32
		i64     = descriptorpb.FieldDescriptorProto_TYPE_INT64
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	of := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		for i, f := range fields {
			f.Number = proto.Int32(int32(i + 1)) // of no matter in JSON
		}
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	field := func(name string, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = proto.String(".store." + of)
		}
		return f
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("store.proto"), Package: proto.String("store"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			of("Spec", field("member_count", i32, ""), field("etcd_version", text, "")),
			of("Meta", field("etcd_version", text, ""), field("timestamp", i64, ""), field("cluster_spec", message, "Spec")),
			of("Restore", field("cluster_spec", message, "Spec"), field("backup", text, "")),
			of("Command", field("timestamp", i64, ""), field("restore_backup", message, "Restore")),
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	return file.Messages()
}

// theyRead reads a file as the predecessor does, and gives it in its own words.
func theyRead(kind protoreflect.Name, data []byte) (string, error) {
	m := dynamicpb.NewMessage(theirs.ByName(kind))
	if err := protojson.Unmarshal(data, m); err != nil {
		return "", err
	}
	out, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	return strings.ReplaceAll(string(out), " ", ""), err
}

// theyWrite gives one content in each form that a writer by that mapping may
// give it.
func theyWrite(t *rapid.T, kind protoreflect.Name, json string) []byte {
	m := dynamicpb.NewMessage(theirs.ByName(kind))
	if err := protojson.Unmarshal([]byte(json), m); err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	o := protojson.MarshalOptions{
		UseProtoNames:   rapid.Bool().Draw(t, "snake_case"),
		EmitUnpopulated: rapid.Bool().Draw(t, "with zero values"),
	}
	if rapid.Bool().Draw(t, "indented") {
		o.Indent = "  "
	}
	data, err := o.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	counts   = rapid.SampledFrom([]int{1, 3, 5, 7, 9})
	versions = rapid.SampledFrom([]string{"3.4.25", "3.5.35", "3.6.16", "3.7.3"})
	names    = rapid.SampledFrom([]string{"2026-11-20T23:14:17Z-000001", "2019-05-07T18:28:01Z-000977", "2026-11-21T00:00:00Z-999999"})
	moments  = rapid.Int64Range(1, math.MaxInt64/2)
)

func TestThePredecessorReadsWhatIsWrittenHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := cluster.Spec{MemberCount: counts.Draw(t, "members"), EtcdVersion: cluster.MustVersion(versions.Draw(t, "version"))}
		name, at := names.Draw(t, "backup"), moments.Draw(t, "at")
		wantSpec := fmt.Sprintf(`{"member_count":%d,"etcd_version":%q}`, spec.MemberCount, spec.EtcdVersion)

		got, err := theyRead("Spec", formatSpec(spec))
		if err != nil || got != wantSpec {
			t.Errorf("the spec is read as %s, want %s (%v)", got, wantSpec, err)
		}
		r := RestoreBackup{Backup: name, Spec: spec, Lost: []cluster.HostID{"a"}, Flags: []string{FlagNoBackup}}
		got, err = theyRead("Command", formatRestore(time.Unix(0, at), r))
		if want := fmt.Sprintf(`{"timestamp":"%d","restore_backup":{"cluster_spec":%s,"backup":%q}}`, at, wantSpec, name); err != nil || got != want {
			t.Errorf("the command is read as %s, want %s (%v)", got, want, err)
		}
		m := backup.Meta{EtcdVersion: spec.EtcdVersion, Timestamp: time.Unix(at/1e9+1, 0), MemberCount: spec.MemberCount, SpecVersion: spec.EtcdVersion}
		got, err = theyRead("Meta", m.Format())
		if want := fmt.Sprintf(`{"etcd_version":%q,"timestamp":"%d","cluster_spec":%s}`, spec.EtcdVersion, at/1e9+1, wantSpec); err != nil || got != want {
			t.Errorf("the meta is read as %s, want %s (%v)", got, want, err)
		}
	})
}

func TestWhatThePredecessorMayWriteIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := cluster.Spec{MemberCount: counts.Draw(t, "members"), EtcdVersion: cluster.MustVersion(versions.Draw(t, "version"))}
		name, at := names.Draw(t, "backup"), moments.Draw(t, "at")
		specJSON := fmt.Sprintf(`{"memberCount":%d,"etcdVersion":%q}`, spec.MemberCount, spec.EtcdVersion)

		data := theyWrite(t, "Spec", specJSON)
		read, err := parseSpec(data)
		if err != nil || !read.Spec.Equal(spec) || len(read.Warnings) > 0 {
			t.Errorf("%s: %+v (%v)", data, read, err)
		}
		var c Command
		data = theyWrite(t, "Command", fmt.Sprintf(`{"timestamp":"%d","restoreBackup":{"clusterSpec":%s,"backup":%q}}`, at, specJSON, name))
		if err := parseCommand(data, &c); err != nil || c.Timestamp.UnixNano() != at || c.Restore.Backup != name || !c.Restore.Spec.Equal(spec) {
			t.Errorf("%s: %+v (%v)", data, c, err)
		}
		data = theyWrite(t, "Meta", fmt.Sprintf(`{"etcdVersion":%q,"timestamp":"%d","clusterSpec":%s}`, spec.EtcdVersion, at/1e9+1, specJSON))
		m, err := backup.ParseMeta(data)
		if err != nil || m.EtcdVersion != spec.EtcdVersion || m.Timestamp.Unix() != at/1e9+1 || m.MemberCount != spec.MemberCount || m.SpecVersion != spec.EtcdVersion {
			t.Errorf("%s: %+v (%v)", data, m, err)
		}
	})
}

// Everything that is written under a shared name is readable there, whatever
// was in its place; what is ours alone lies under names that are passed over.
func TestSharedObjectsStayReadable(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f := New(s, "etcd")
	for _, before := range []string{"", `{"member_count":3,"etcd_version":"3.5.35","color":"blue"}`, `{`, `{"memberCount":"1","etcdVersion":"3.6.16"}`} {
		if before != "" {
			place(t, s, keySpec, before)
		}
		if _, _, err := f.AmendSpec(ctx, Amend{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}); err != nil {
			t.Fatal(err)
		}
		if got, err := theyRead("Spec", []byte(content(t, s, keySpec))); err != nil || got != `{"member_count":3,"etcd_version":"3.6.16"}` {
			t.Errorf("over %q: %s (%v)", before, got, err)
		}
	}
	full := cluster.Spec{MemberCount: 5, EtcdVersion: cluster.MustVersion("3.6.16"), Hold: true, Hosts: []cluster.HostID{"a", "b", "c", "d", "e"}}
	if err := f.WriteSpec(ctx, full); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddRestore(ctx, RestoreBackup{Backup: "2026-11-20T23:14:17Z-000001", Lost: []cluster.HostID{"a"}, Flags: []string{FlagNoBackup}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddWish(ctx, Wish{Kind: cluster.CommandBackup}); err != nil {
		t.Fatal(err)
	}
	infos, err := s.List(ctx, Prefix)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[protoreflect.Name]int{}
	for _, i := range infos {
		var kind protoreflect.Name
		switch base := i.Key[strings.LastIndexByte(i.Key, '/')+1:]; {
		case i.Key == keySpec:
			kind = "Spec"
		case base == fileCommand:
			kind = "Command"
		case base == backup.FileMeta, base == "etcd-cluster-created":
			t.Errorf("%s means something to the predecessor", i.Key)
			continue
		default:
			continue
		}
		seen[kind]++
		if _, err := theyRead(kind, []byte(content(t, s, i.Key))); err != nil {
			t.Errorf("%s: %v", i.Key, err)
		}
	}
	if seen["Spec"] != 1 || seen["Command"] != 1 {
		t.Errorf("seen are %v", seen)
	}
}

// deaf is a store whose objects cannot be read.
type deaf struct{ blob.Store }

var errDeaf = errors.New("no answer")

func (deaf) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) { return nil, errDeaf }

func TestAmendSpecWritesNothingOverWhatItCannotRead(t *testing.T) {
	s := memory.New()
	place(t, s, keySpec, `{"memberCount":5,"etcdVersion":"3.6.16"}`)
	if _, _, err := New(deaf{s}, "etcd").AmendSpec(t.Context(), Amend{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}); !errors.Is(err, errDeaf) {
		t.Error(err)
	}
	if now := content(t, s, keySpec); !strings.Contains(now, ":5") {
		t.Errorf("it was written over by %s", now)
	}
}

// rival is a store in which somebody else writes the spec right before a write of it, or
// whose answers to writes are lost, or that knows no conditions.
type rival struct {
	blob.Store
	writes      string
	lost, blind bool
}

func (r *rival) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if r.blind && cond != blob.Any {
		return "", blob.ErrUnsupported
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	if r.writes != "" {
		if _, err := blob.PutBytes(ctx, r.Store, key, []byte(r.writes), blob.Any); err != nil {
			return "", err
		}
		r.writes = ""
	}
	if r.lost {
		if _, err := blob.PutBytes(ctx, r.Store, key, data, cond); err != nil {
			return "", err
		}
	}
	return blob.PutBytes(ctx, r.Store, key, data, cond)
}

// What somebody else writes between the look and the write stays, and so does what is no
// longer what a person was shown.
func TestAmendSpecOverAnotherWriter(t *testing.T) {
	theirs := `{"memberCount":7,"etcdVersion":"3.6.16"}`
	amend := Amend{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}
	for _, before := range []string{"", `{"memberCount":5,"etcdVersion":"3.6.16"}`, `{`} {
		s := memory.New()
		if before != "" {
			place(t, s, keySpec, before)
		}
		r := &rival{Store: s, writes: theirs}
		f := New(r, "etcd")
		if _, _, err := f.AmendSpec(t.Context(), amend); !errors.Is(err, ErrConflict) || content(t, s, keySpec) != theirs {
			t.Errorf("over %q: %v, and the spec is %s", before, err, content(t, s, keySpec))
		}
		shown, _ := f.ReadSpec(t.Context())
		place(t, s, keySpec, `{"memberCount":9,"etcdVersion":"3.6.16"}`)
		changed := amend
		changed.Shown = &shown
		if _, _, err := f.AmendSpec(t.Context(), changed); !errors.Is(err, ErrConflict) || !strings.Contains(content(t, s, keySpec), "9") {
			t.Errorf("over %q, and not what was shown: %v", before, err)
		}
		if shown, _ = f.ReadSpec(t.Context()); shown.Spec == nil {
			t.Fatal("there is no spec")
		}
		if now, _, err := f.AmendSpec(t.Context(), changed); err != nil || now.MemberCount != 3 {
			t.Errorf("over %q, as it was shown: %+v, %v", before, now, err)
		}
		r.lost = true
		if _, _, err := f.AmendSpec(t.Context(), Amend{MemberCount: 5}); err != nil || !strings.Contains(content(t, s, keySpec), "5") {
			t.Errorf("an answer was lost: %v", err)
		}
	}
	s := memory.New()
	place(t, s, keySpec, `{"memberCount":5,"etcdVersion":"3.6.16"}`)
	f := New(&rival{Store: s, blind: true}, "etcd")
	if _, _, err := f.AmendSpec(t.Context(), amend); err != nil || !strings.Contains(content(t, s, keySpec), "3.7.3") {
		t.Errorf("in a store without conditions: %v", err)
	}
}

func place(t *testing.T, s blob.Store, key, data string) {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), s, key, []byte(data), blob.Any); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, s blob.Store, key string) string {
	t.Helper()
	data, _, err := blob.ReadAll(t.Context(), s, key, maxObject)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
