package adoption

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/regular"
)

// configFile is the file that an etcd with these settings reads; empty: none. etcd goes
// by that file alone then: it ignores its other flags and every ETCD_ variable (parse in
// etcdmain/config.go of etcd).
func configFile(flags []Flag) string {
	for _, f := range flags {
		if f.Name == "config-file" {
			return f.Value
		}
	}
	return ""
}

// readConfigFile reads the settings of a running process from its file, which is at a
// path of that process's own root and directory.
func readConfigFile(pid int, path string) ([]Flag, error) {
	proc := fmt.Sprintf("/proc/%d", pid)
	at := path
	if !filepath.IsAbs(at) {
		dir, err := os.Readlink(filepath.Join(proc, "cwd"))
		if err != nil {
			return nil, fmt.Errorf("its settings are in %s alone: %w", path, err)
		}
		at = filepath.Join(dir, at)
	}
	content, err := regular.Read(filepath.Join(proc, "root", at), regular.SmallSize)
	if err != nil {
		return nil, fmt.Errorf("its settings are in %s alone: %w", path, err)
	}
	flags, err := ParseConfigFile(path, content)
	if err != nil {
		return nil, fmt.Errorf("its settings are in %s alone: %w", path, err)
	}
	return flags, nil
}

// nested are the sections of the file, each with what the names of its settings begin
// with as flags.
var nested = map[string]string{"client-transport-security": "", "peer-transport-security": "peer-", "socket-options": "socket-"}

// renamed are settings of the file whose flags have other names. Source: the JSON tags of
// embed/config.go and of transport.SocketOpts, 3.4 to 3.7.
var renamed = map[string]string{
	"allowed-hostname": "client-cert-allowed-hostname", "peer-allowed-hostname": "peer-cert-allowed-hostname",
	"allowed-cn": "client-cert-allowed-cn", "peer-allowed-cn": "peer-cert-allowed-cn",
	"experimental-snapshot-catch-up-entries": "experimental-snapshot-catchup-entries",
}

// ParseConfigFile reads the file of etcd's --config-file as flags, by name, the file
// itself among them.
func ParseConfigFile(path string, content []byte) ([]Flag, error) {
	text, err := yaml.YAMLToJSON(content)
	if err != nil {
		return nil, fmt.Errorf("read it as YAML: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a quota has more digits than a float64
	var settings map[string]any
	if err := decoder.Decode(&settings); err != nil {
		return nil, fmt.Errorf("read it as settings: %w", err)
	}
	out := []Flag{{Name: "config-file", Value: path}}
	var add func(begin string, settings map[string]any)
	add = func(begin string, settings map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			name := strings.ToLower(key) // as package json matches it
			below, isMap := settings[key].(map[string]any)
			if prefix, is := nested[name]; is && isMap && begin == "" {
				add(prefix, below)
				continue
			}
			name = begin + name
			if flag, is := renamed[name]; is {
				name = flag
			}
			if value := settingOf(name, settings[key]); value != "" {
				out = append(out, Flag{Name: name, Value: value, File: path})
			}
		}
	}
	add("", settings)
	slices.SortStableFunc(out, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// settingOf is a value of the file as the flag has it; empty: the default. The file has
// durations in nanoseconds, and lists.
func settingOf(name string, value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		if o, _ := cluster.FindOption(name); o.Kind == cluster.KindDuration {
			if n, err := value.Int64(); err == nil {
				return time.Duration(n).String()
			}
		}
		return value.String()
	case []any:
		var words []string
		for _, v := range value {
			words = append(words, settingOf("", v))
		}
		return strings.Join(words, ",")
	}
	return ""
}
