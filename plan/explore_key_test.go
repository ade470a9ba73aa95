package plan

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// stateKey tells states apart. Times count by their age in seconds, up to what the
// planner's longest patience with it is: what is older is just old, so that the
// same state later is the same state.
type stateKey [2]uint64

// old is how old what a field tells the time of can become in a small world before
// it makes no more difference.
func old(field string) time.Duration {
	switch field {
	case "At", "LastSeen": // of the last look
		return 2 * time.Second
	case "FenceSince", "EnoughSince", "HealthySince", "SilentSince", "VanishedSince", "at": // [settled], DeadAfter, [foundingPatience], the age of a stamp
		return 6 * time.Second
	case "LeaderlessSince": // [reviveAfter]
		return time.Minute
	case "QuorumlessSince": // nothing in these worlds asks
		return 0
	}
	return 31 * time.Second // [foundingStalled], [callsEnd], [joinPatience], [downgradeEnds]
}

var keySeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// keyWriter turns a state into bytes. It walks the values by reflection, so that a
// field that is new counts without anybody thinking of it.
type keyWriter struct {
	buf []byte
	now time.Time
}

func (k *keyWriter) key(s *smallWorld) stateKey {
	k.buf, k.now = k.buf[:0], s.now
	k.value(reflect.ValueOf(s).Elem())
	born := make([]string, 0, len(s.born))
	for b, at := range s.born {
		born = append(born, string(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(b.cluster)), uint64(b.member)))+string(at.disk))
	}
	slices.Sort(born)
	for _, b := range born {
		k.text(b)
	}
	for _, c := range s.clusters {
		for _, m := range c.members {
			f := c.formats[m.ID]
			k.number(uint64(f.Major)<<32 | uint64(f.Minor)<<16 | uint64(f.Patch))
		}
	}
	return stateKey{maphash.Bytes(keySeeds[0], k.buf), maphash.Bytes(keySeeds[1], k.buf)}
}

func (k *keyWriter) number(n uint64) { k.buf = binary.AppendUvarint(k.buf, n) }

func (k *keyWriter) text(s string) {
	k.number(uint64(len(s)))
	k.buf = append(k.buf, s...)
}

func (k *keyWriter) age(t time.Time, field string) {
	if t.IsZero() {
		k.buf = append(k.buf, 0xff)
		return
	}
	most := old(field)
	k.buf = append(k.buf, byte(max(-most, min(most, k.now.Sub(t)))/time.Second))
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	intentType = reflect.TypeFor[cluster.Intent]()
	worldType  = reflect.TypeFor[world]()
	haltType   = reflect.TypeFor[cluster.Halt]()
	upkeepType = reflect.TypeFor[cluster.UpkeepMemory]()
	hostOpType = reflect.TypeFor[decision.HostOp]()
)

// value needs v to be addressable.
func (k *keyWriter) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			k.buf = append(k.buf, 1)
		} else {
			k.buf = append(k.buf, 0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		k.number(v.Uint())
	case reflect.String:
		k.text(v.String())
	case reflect.Pointer:
		if v.IsNil() {
			k.buf = append(k.buf, 0)
			return
		}
		k.buf = append(k.buf, 1)
		k.value(v.Elem())
	case reflect.Slice:
		k.number(uint64(v.Len()))
		for i := range v.Len() {
			k.value(v.Index(i))
		}
	case reflect.Struct:
		k.fields(v)
	case reflect.Map: // written by key
	default:
		panic("a state with a " + v.Kind().String())
	}
}

// keyField is a field of a struct that tells states apart.
type keyField struct {
	at    int
	name  string
	clock bool // a time
	stamp bool // a time in nanoseconds since 1970
}

// keyFields are those of each type that was met; the fields of a type are slow to ask for.
var keyFields = map[reflect.Type][]keyField{}

func fieldsOf(t reflect.Type) []keyField {
	if known, ok := keyFields[t]; ok {
		return known
	}
	var out []keyField
	for i := range t.NumField() {
		f := keyField{at: i, name: t.Field(i).Name, clock: t.Field(i).Type == timeType}
		switch {
		case t == worldType && (f.name == "now" || f.name == "underWay"),
			t == hostOpType && f.name == "Stamp", // a clock time
			t == upkeepType && f.name == "Revisions":
			continue
		}
		f.stamp = t == intentType && f.name == "Timestamp"
		if t == haltType {
			f.name = "halt." + f.name // [haltPatience]
		}
		out = append(out, f)
	}
	keyFields[t] = out
	return out
}

func (k *keyWriter) fields(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		x := v.Field(f.at)
		switch {
		case f.stamp:
			k.age(time.Unix(0, x.Int()), f.name)
		case f.clock:
			k.age(*(*time.Time)(unsafe.Pointer(x.UnsafeAddr())), f.name)
		default:
			k.value(x)
		}
	}
}
