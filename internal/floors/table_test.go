package floors

// Floors. A package may import packages of lower floors.
const (
	pure     = 0 // nouns and decisions: values in, values out
	driver   = 1 // wraps one outside thing, knows no policy
	service  = 2 // combines drivers, still no policy
	face     = 3 // loops and faces
	command  = 4 // main packages: flags to options, signals, exit code
	scaffold = 9 // for tests only: may import anything, is imported by no product code
)

// room is one row: a package (or with "/..." a tree of packages that may import
// one another freely), its floor, and what it may do beyond its floor's rules.
type room struct {
	path  string // below the module path
	floor int
	// ground marks a driver that stands under the others: all of its floor may
	// import it, and it imports none of them.
	ground bool
	// beside lists packages of the same floor that it may import, with the reason.
	beside map[string]string
	// never lists packages and package trees that it may not import although
	// they are on a lower floor or outside, with the reason.
	never map[string]string
}

const (
	noPolicy  = "a driver knows no policy"
	noNetwork = "it works on files under a directory that it was given"
)

// Shared "never" lists.
var (
	knowsNoPolicy = map[string]string{
		"plan":     noPolicy,
		"election": noPolicy,
	}
	filesOnly = map[string]string{
		"plan":                   noPolicy,
		"election":               noPolicy,
		"net":                    noNetwork,
		"net/http":               noNetwork,
		"google.golang.org/grpc": noNetwork,
	}
	knowsNoCluster = map[string]string{
		"cluster":  "it knows processes, not clusters or peers",
		"plan":     noPolicy,
		"election": noPolicy,
	}
	hostOnly = map[string]string{
		"plan":          "membership policy is not the host's",
		"election":      "a host does not know who leads, only the fence it promised",
		"internal/peer": "a host asks no other",
	}
	storeOnly = map[string]string{
		"plan":             "policy is the manager's",
		"election":         "policy is the manager's",
		"internal/etcd":    "it talks to a backup store, never to etcd",
		"internal/host":    "it talks to a backup store, never to hosts",
		"internal/peer":    "it talks to a backup store, never to hosts",
		"internal/runtime": "it talks to a backup store, never to hosts",
	}
)

// table is DESIGN's "Floors" and "may / may not", one row a package.
var table = []room{
	// Floor 0.
	{path: "cluster", floor: pure},
	{path: "internal/register", floor: pure, beside: map[string]string{
		"cluster": "hosts have names",
	}},
	{path: "plan/internal/words", floor: pure, beside: map[string]string{
		"cluster": "about its nouns",
	}},
	{path: "plan/path", floor: pure, beside: map[string]string{
		"cluster":             "about its nouns",
		"plan/internal/words": "names and numbers in sentences",
	}},
	{path: "plan/internal/decision", floor: pure, beside: map[string]string{
		"cluster":             "about its nouns",
		"plan/internal/words": "names and numbers in sentences",
	}},
	{path: "plan/internal/sight", floor: pure, beside: map[string]string{
		"cluster":                "about its nouns",
		"plan/internal/decision": "what is wanted and decided",
		"plan/internal/words":    "names and numbers in sentences",
		"plan/path":              "the ways between releases",
	}},
	{path: "plan/internal/step", floor: pure, beside: map[string]string{
		"cluster":                "about its nouns",
		"plan/internal/decision": "what is wanted and decided",
		"plan/internal/sight":    "what is known",
		"plan/internal/words":    "names and numbers in sentences",
		"plan/path":              "the ways between releases",
	}},
	{path: "plan/internal/pauses", floor: pure, beside: map[string]string{
		"cluster":                "about its nouns",
		"plan/internal/decision": "what is wanted and decided",
		"plan/internal/sight":    "what is known",
		"plan/internal/step":     "what decisions are made of",
		"plan/internal/words":    "names and numbers in sentences",
	}},
	{path: "plan/internal/manual", floor: pure, beside: map[string]string{
		"cluster":                "about its nouns",
		"plan/internal/decision": "what is wanted and decided",
		"plan/internal/step":     "what decisions are made of",
		"plan/internal/words":    "names and numbers in sentences",
	}},
	{path: "plan/internal/generation", floor: pure, beside: map[string]string{
		"cluster":                "about its nouns",
		"plan/internal/decision": "what is wanted and decided",
		"plan/internal/pauses":   "whose silence does not count",
		"plan/internal/sight":    "what is known",
		"plan/internal/step":     "what decisions are made of",
		"plan/internal/words":    "names and numbers in sentences",
		"plan/path":              "the ways between releases",
	}},
	{path: "plan/internal/recovery", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/generation": "how long a loss has to last",
		"plan/internal/sight":      "who is furthest",
		"plan/internal/words":      "names and numbers in sentences",
	}},
	{path: "plan/internal/members", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/decision":   "what is wanted and decided",
		"plan/internal/generation": "a cluster from data, and the record of it",
		"plan/internal/pauses":     "whose silence does not count",
		"plan/internal/sight":      "what is known",
		"plan/internal/step":       "what decisions are made of",
		"plan/internal/words":      "names and numbers in sentences",
	}},
	{path: "plan/internal/upkeep", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/decision":   "what is wanted and decided",
		"plan/internal/generation": "a cluster from data, and the record of it",
		"plan/internal/members":    "which members are dead",
		"plan/internal/sight":      "what is known",
		"plan/internal/step":       "what decisions are made of",
		"plan/internal/words":      "names and numbers in sentences",
	}},
	{path: "plan/internal/roll", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/decision":   "what is wanted and decided",
		"plan/internal/generation": "a cluster from data, and the record of it",
		"plan/internal/members":    "which members are dead",
		"plan/internal/sight":      "what is known",
		"plan/internal/step":       "what decisions are made of",
		"plan/internal/words":      "names and numbers in sentences",
		"plan/path":                "the ways between releases",
	}},
	{path: "plan/internal/record", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/decision":   "what is wanted and decided",
		"plan/internal/generation": "a cluster from data, and the record of it",
		"plan/internal/members":    "which members are dead",
		"plan/internal/pauses":     "whose silence does not count",
		"plan/internal/sight":      "what is known",
		"plan/internal/step":       "what decisions are made of",
		"plan/internal/words":      "names and numbers in sentences",
	}},
	{path: "plan", floor: pure, beside: map[string]string{
		"cluster":                  "about its nouns",
		"plan/internal/decision":   "what is wanted and decided",
		"plan/internal/generation": "its rules",
		"plan/internal/manual":     "its rules",
		"plan/internal/members":    "its rules",
		"plan/internal/pauses":     "its rules",
		"plan/internal/record":     "its rules",
		"plan/internal/recovery":   "what a person is told before a recovery",
		"plan/internal/roll":       "its rules",
		"plan/internal/sight":      "what is known",
		"plan/internal/step":       "what decisions are made of",
		"plan/internal/upkeep":     "its rules",
		"plan/path":                "the ways between releases",
		"plan/internal/words":      "sentences are data",
	}},
	{path: "election", floor: pure, beside: map[string]string{
		"cluster": "the view is made of its nouns",
	}},
	{path: "backup", floor: pure, beside: map[string]string{
		"cluster": "a manifest names a version and a spec",
	}},

	// Floor 1.
	{path: "internal/etcd", floor: driver, never: knowsNoPolicy},
	{path: "internal/keycopy", floor: driver, never: map[string]string{
		"plan":                      noPolicy,
		"election":                  noPolicy,
		"go.etcd.io/etcd/client/v3": "as in internal/etcd, nothing is repeated behind its back",
	}},
	{path: "internal/snapshot", floor: driver, never: map[string]string{
		"plan":                      noPolicy,
		"election":                  noPolicy,
		"google.golang.org/grpc":    "it asks its throw-away etcd over a socket in a directory of its own, and nobody else",
		"go.etcd.io/etcd/client/v3": "it asks its throw-away etcd over a socket in a directory of its own, and nobody else",
	}, beside: map[string]string{
		"internal/release": "restores with the tool of the backup's own release",
	}},
	{path: "internal/blob", floor: driver, never: knowsNoPolicy},
	{path: "internal/blob/file", floor: driver, never: filesOnly, beside: isAStore},
	{path: "internal/blob/memory", floor: driver, never: filesOnly, beside: isAStore},
	{path: "internal/blob/hosts", floor: driver, never: filesOnly, beside: isAStore},
	{path: "internal/blob/remote", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/blob": "its errors and its rules for keys",
	}},
	{path: "internal/blob/s3", floor: driver, never: knowsNoPolicy, beside: isARemoteStore},
	{path: "internal/blob/gs", floor: driver, never: knowsNoPolicy, beside: isARemoteStore},
	{path: "internal/blob/azure", floor: driver, never: knowsNoPolicy, beside: isARemoteStore},
	{path: "internal/blob/kubernetes", floor: driver, never: knowsNoPolicy, beside: isARemoteStore},
	{path: "internal/blob/open", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/blob":            "returns its Store",
		"internal/blob/file":       "opens file://",
		"internal/blob/memory":     "opens memory://",
		"internal/blob/s3":         "opens s3:// and its relatives",
		"internal/blob/gs":         "opens gs://",
		"internal/blob/azure":      "opens azureblob://",
		"internal/blob/kubernetes": "opens kubernetes://",
	}},
	{path: "internal/discovery", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/blob": "seeds may lie in the backup store",
	}},
	{path: "internal/pki", floor: driver, never: knowsNoPolicy},
	{path: "internal/signing", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/pki": "what is signed is its request",
	}},
	{path: "internal/release", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/builtin": "the built-in release is one of the places",
	}},
	{path: "internal/builtin", floor: driver, never: knowsNoPolicy},
	{path: "internal/runtime", floor: driver, never: knowsNoCluster},
	{path: "internal/durable", floor: driver, ground: true, never: filesOnly},
	{path: "internal/durable/crashdisk", floor: scaffold},
	{path: "internal/journal", floor: driver, never: filesOnly},
	{path: "internal/keeper", floor: driver, never: filesOnly},
	{path: "internal/hostsfile", floor: driver, never: filesOnly},
	{path: "internal/envfile", floor: driver, never: filesOnly},
	{path: "internal/token", floor: driver, never: filesOnly},
	{path: "internal/unit", floor: driver, never: knowsNoCluster},
	{path: "internal/staticpod", floor: driver, never: knowsNoCluster},
	{path: "internal/kubeadm", floor: driver, never: knowsNoPolicy},
	{path: "internal/duration", floor: driver, ground: true, never: filesOnly},
	{path: "internal/progress", floor: driver, ground: true, never: filesOnly},
	{path: "internal/logqueue", floor: driver, ground: true, never: filesOnly},
	{path: "internal/regular", floor: driver, ground: true, never: filesOnly},
	{path: "internal/cores", floor: driver, ground: true, never: filesOnly, beside: map[string]string{
		"internal/regular": "limits are read as regular files",
	}},
	{path: "internal/firstprocess", floor: driver, never: knowsNoCluster},
	{path: "internal/wake", floor: driver, ground: true, never: filesOnly},
	{path: "internal/advice", floor: driver, ground: true, never: filesOnly},
	{path: "internal/version", floor: driver, ground: true, never: filesOnly},
	{path: "internal/bounded", floor: driver, ground: true, never: filesOnly, beside: map[string]string{
		"internal/regular": "programs are read as regular files",
	}},

	{path: "internal/host/record", floor: driver, never: knowsNoPolicy},
	{path: "internal/host/etcdargs", floor: driver, never: knowsNoPolicy, beside: map[string]string{
		"internal/host/record": "the launch that arguments are made of",
	}},
	{path: "internal/host/datadir", floor: driver, never: filesOnly, beside: map[string]string{
		"internal/host/record": "the state that it keeps",
		"internal/journal":     "the state is written with a journal",
		"internal/regular":     "its files are read as regular files",
		"internal/snapshot":    "whose log it is",
	}},

	// Floor 2: the rooms of a host, each below the next.
	{path: "internal/host/answer", floor: service, never: hostOnly},
	{path: "internal/host/work", floor: service, never: hostOnly},
	{path: "internal/host/evidence", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/work": "what is signalled to the host's loop",
	}},
	{path: "internal/host/settings", floor: service, never: hostOnly},
	{path: "internal/host/member", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/answer": "how an op came out",
		"internal/host/work":   "a hash goes on beside the ops",
	}},
	{path: "internal/host/first", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/answer": "why there is no first start",
		"internal/host/member": "the member list of a joiner",
		"internal/host/work":   "how long a read of the intent may take",
	}},
	{path: "internal/host/inventory", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/answer": "how an op came out",
		"internal/host/member": "what serves goes beyond what is pruned",
		"internal/host/work":   "a removal goes on beside the ops",
	}},
	{path: "internal/host/bulk", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/answer":    "how an op came out",
		"internal/host/inventory": "what was staged lies there",
		"internal/host/member":    "a backup is read through it",
		"internal/host/work":      "it goes on beside the ops",
	}},
	{path: "internal/host/takeover", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/inventory": "what lies there beside the member that is taken over",
		"internal/host/member":    "the member list of a joiner",
		"internal/host/settings":  "what the member would be started with",
		"internal/host/work":      "how long a read of the intent may take",
	}},
	{path: "internal/host", floor: service, never: hostOnly, beside: map[string]string{
		"internal/host/answer":    "its rooms",
		"internal/host/bulk":      "its rooms",
		"internal/host/evidence":  "its rooms",
		"internal/host/first":     "its rooms",
		"internal/host/inventory": "its rooms",
		"internal/host/member":    "its rooms",
		"internal/host/settings":  "its rooms",
		"internal/host/takeover":  "its rooms",
		"internal/host/work":      "its rooms",
	}},
	{path: "internal/peer", floor: service, never: map[string]string{
		"plan": "a peer carries decisions, it makes none",
	}, beside: map[string]string{
		"internal/host":        "serves this host's Observe and Apply, and speaks for a remote one's",
		"internal/peer/peerpb": "the wire format",
	}},
	{path: "internal/peer/peerpb", floor: service, never: knowsNoCluster},
	{path: "internal/conversion", floor: service, never: map[string]string{
		"plan":          noPolicy,
		"election":      noPolicy,
		"internal/host": "it sees one member's data, and no host",
		"internal/peer": "it sees one member's data, and no host",
	}},
	{path: "internal/control", floor: service, never: storeOnly},
	{path: "internal/backupstore", floor: service, never: storeOnly},
	{path: "internal/adoption", floor: service, never: map[string]string{
		"plan":          "policy is the manager's",
		"election":      "policy is the manager's",
		"internal/etcd": "it is told what was seen of the cluster",
	}, beside: map[string]string{
		"internal/host":    "it writes what a host takes over",
		"internal/control": "it makes the store ready for that",
	}},

	{path: "internal/certs", floor: service, never: filesOnly},
	{path: "internal/kept", floor: service, never: knowsNoPolicy, beside: map[string]string{
		"internal/peer": "other hosts are asked for what they keep",
	}},
	{path: "internal/keeping", floor: service, never: knowsNoPolicy, beside: map[string]string{
		"internal/control": "who is to keep the record is in the intent",
		"internal/kept":    "what the hosts keep, of which it is one host's part",
		"internal/peer":    "other hosts are asked, and answered",
	}},
	{path: "internal/moving", floor: service, never: knowsNoPolicy, beside: map[string]string{
		"internal/control": "the record is its folder",
		"internal/peer":    "what hosts are told of a move",
	}},
	{path: "internal/say", floor: service, never: knowsNoPolicy},
	{path: "internal/sources", floor: service, never: map[string]string{
		"plan":          noPolicy,
		"election":      noPolicy,
		"internal/peer": "it sees one host",
	}, beside: map[string]string{
		"internal/backupstore": "what it fetches and writes",
		"internal/control":     "which backups are used",
		"internal/conversion":  "data that no tool restores are carried over key by key",
		"internal/host/bulk":   "implements its Sources",
		"internal/say":         "what does not work is said once",
	}},

	// Floor 3.
	{path: "internal/manager", floor: face, never: map[string]string{
		"os/exec":                      "the manager calls interfaces",
		"go.etcd.io/etcd":              "the manager calls interfaces",
		"google.golang.org/grpc":       "the manager calls interfaces",
		"github.com/aws":               "the manager calls interfaces",
		"cloud.google.com/go":          "the manager calls interfaces",
		"github.com/Azure":             "the manager calls interfaces",
		"internal/builtin":             "which releases there are is the host's matter",
		"internal/runtime":             "processes are the host's matter",
		"github.com/spf13/cobra":       "flags are the cli's matter",
		"github.com/fsnotify":          "files are the drivers' matter",
		"internal/blob/open":           "which store it is was decided before",
		"internal/peer/peerpb":         "the wire is the peer's matter",
		"google.golang.org/protobuf":   "the wire is the peer's matter",
		"github.com/coreos/go-systemd": "processes are the host's matter",
	}},
	{path: "internal/console", floor: face, beside: map[string]string{
		"internal/manager": "hands it a person's goals, in its own types",
	}},
	{path: "internal/daemon", floor: face, beside: map[string]string{
		"internal/console": "answers a person's questions and takes their goals",
		"internal/manager": "assembles its parts and runs it",
	}},
	{path: "internal/setup", floor: face, never: map[string]string{
		"plan":                   "it sets a machine up, and decides nothing about a cluster",
		"election":               "it sets a machine up, and decides nothing about a cluster",
		"os/exec":                "processes are a matter of internal/unit",
		"github.com/spf13/cobra": "a program may call it",
	}, beside: map[string]string{
		"internal/console": "waits by it until etcd serves",
	}},
	{path: "internal/tables", floor: face, never: map[string]string{
		"github.com/spf13/cobra": "kubectl's plugin prints them, too",
	}},
	{path: "internal/support", floor: face, never: map[string]string{
		"github.com/spf13/cobra": "a program may call it",
	}, beside: map[string]string{
		"internal/console": "asks the daemons",
		"internal/setup":   "what this host is",
	}},
	{path: "internal/handover", floor: face, never: map[string]string{
		"plan":                   "it hands a member over, and decides nothing about a cluster",
		"election":               "it hands a member over, and decides nothing about a cluster",
		"os/exec":                "processes are a matter of internal/unit",
		"github.com/spf13/cobra": "a program may call it",
	}, beside: map[string]string{
		"internal/console": "how an etcd is asked",
		"internal/setup":   "is what its checks and steps are for",
	}},
	{path: "internal/removal", floor: face, never: map[string]string{
		"election":               "it asks who leads, and decides nothing about a cluster",
		"os/exec":                "processes are a matter of internal/unit and internal/runtime",
		"github.com/spf13/cobra": "a program may call it",
	}, beside: map[string]string{
		"internal/console": "asks the daemons to let a member go",
		"internal/manager": "a person's goals, in its types",
		"internal/setup":   "undoes what it made",
	}},
	{path: "internal/playground", floor: face, beside: map[string]string{
		"internal/console": "asks them",
		"internal/daemon":  "runs several of them on this machine",
		"internal/manager": "looks at what they decide",
	}},
	{path: module, floor: face, never: map[string]string{
		"os/exec":                "it starts nothing but through internal/setup",
		"github.com/spf13/cobra": "flags are the cli's matter",
		"internal/daemon":        "it asks daemons, and is none",
		"internal/cli":           "what both do is below both",
	}, beside: map[string]string{
		"internal/console": "asks the daemons",
		"internal/manager": "a step by hand is handed to it, in its own types",
		"internal/setup":   "init and join",
		"internal/removal": "reset",
	}},
	{path: "internal/cli/...", floor: face, beside: map[string]string{
		"internal/console":    "asks the daemons",
		"internal/daemon":     "etcd-manager's flags become its configuration",
		"internal/handover":   "init and join with --adopt",
		"internal/manager":    "a step by hand is its loop, run once",
		"internal/playground": "etcdadm playground",
		"internal/removal":    "reset",
		"internal/setup":      "init, join and token",
		"internal/support":    "etcdadm support-bundle",
		"internal/tables":     "prints what kubectl's plugin prints, too",
	}},

	// Commands.
	{path: "cmd/etcdadm", floor: command},
	{path: "cmd/etcd-manager", floor: command},
	{path: "cmd/etcd-manager-ctl", floor: command},
	{path: "cmd/etcd-backup", floor: command},
	{path: "cmd/etcd-backup-ctl", floor: command},
	{path: "cmd/etcd-dump", floor: command},

	// For tests only; conformance suites (x/xtest) belong here without a row.
	{path: "internal/floors", floor: scaffold},
	{path: "internal/testetcd/...", floor: scaffold},
	{path: "internal/teststore/...", floor: scaffold},
	{path: "internal/testlog", floor: scaffold},
	{path: "internal/testenv", floor: scaffold},
	{path: "internal/testlater", floor: scaffold},
	{path: "internal/teststill", floor: scaffold},
	{path: "internal/testkube/...", floor: scaffold},
	{path: "internal/sim/...", floor: scaffold},
	{path: "internal/history", floor: scaffold},
	{path: "bench/...", floor: scaffold},
	{path: "e2e/...", floor: scaffold},
	{path: "docs", floor: scaffold},      // holds the documents against the code
	{path: "tools/...", floor: scaffold}, // a module of its own
}

var isAStore = map[string]string{"internal/blob": "implements its Store"}

var isARemoteStore = map[string]string{
	"internal/blob":        "implements its Store",
	"internal/blob/remote": "requests, retries and parts are the same for all of them",
}

// guarded outside packages: only the rooms named may import them (product code;
// scaffolds are free). It says where an outside thing comes into the building.
var guarded = []struct {
	path  string
	rooms []string
	why   string
}{
	{"os/exec", []string{"internal/runtime", "internal/snapshot", "internal/release", "internal/playground", "internal/unit"},
		"processes are started by the drivers that are about processes"},
	{"go.etcd.io/etcd/client/v3", []string{"internal/etcd"},
		"etcd is spoken to through internal/etcd"},
	{"go.etcd.io/etcd/server/v3", []string{"internal/builtin", "internal/snapshot"},
		"etcd's server is inside internal/builtin"},
	{"google.golang.org/grpc", []string{"internal/etcd", "internal/keycopy", "internal/peer", "internal/peer/peerpb"},
		"the wire is the peer's matter"},
	{"github.com/spf13/cobra", []string{"internal/cli/...", "internal/builtin"},
		"flags are the cli's matter; etcdutl brings its own"},
	{"github.com/aws", []string{"internal/blob/s3", "internal/discovery"}, "one SDK a store"},
	{"cloud.google.com/go", []string{"internal/blob/gs", "internal/discovery"}, "one SDK a store"},
	{"google.golang.org/api", []string{"internal/blob/gs", "internal/discovery"}, "one SDK a store"},
	{"github.com/Azure", []string{"internal/blob/azure", "internal/discovery"}, "one SDK a store"},
	// The wing: what few clusters need once. The rest reads without it, since each part has one door.
	{module + "/internal/keycopy", []string{"internal/conversion", "internal/sources"}, "keys are carried over one by one in a conversion"},
	{module + "/internal/conversion", []string{"internal/sources"}, "data that no tool restores are a matter of a host's sources"},
	{module + "/internal/adoption", []string{"internal/cli", "internal/handover"}, "a person has a cluster of another program adopted"},
	{module + "/internal/host/takeover", []string{"internal/host"}, "a host takes a member of another program over"},
	{"testing", nil, "product code does not know that it is tested"},
}

// pureStd is what floor 0 may import of the standard library: computation on
// values. time is there for its types; purity_test.go forbids its clock.
var pureStd = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding",
	"encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"hash", "hash/fnv", "io", "iter", "maps", "math", "math/big", "math/bits", "net/netip",
	"net/url", "path", "reflect", "regexp", "slices", "sort", "strconv", "strings",
	"text/tabwriter", "text/template", "time", "unicode", "unicode/utf8",
}

// commandStd is what a command may import of the standard library.
var commandStd = []string{"context", "errors", "fmt", "log/slog", "os", "os/signal", "syscall"}

// commandLines is the size from which a command is suspected of logic.
const commandLines = 100
