package cluster

// Feature is something that releases of etcd have or have not.
type Feature string

// Features, and what they are for.
const (
	V3API           Feature = "version 3 of the API"
	HashKV          Feature = "HashKV"
	MoveLeader      Feature = "MoveLeader"
	MetricsURLs     Feature = "--listen-metrics-urls"
	LogOutput       Feature = "--log-output"
	ZapLogger       Feature = "--logger"
	StrictByDefault Feature = "strict reconfiguration by default"
	AppliedIndex    Feature = "applied index in Status"
	DowngradeAPI    Feature = "the Downgrade API, carried out by its members"
	StorageVersion  Feature = "storage version in Status"
	MaxLearnersFlag Feature = "--max-learners"
	BumpRevision    Feature = "restore with --bump-revision and --mark-compacted"
)

// feature says which releases have it: from[i] is the first patch of its line
// with it, and whatever is of a later line than the last of them has it, too;
// until is the first line without it again.
type feature struct {
	from  []Version
	until Version
}

// features has no entry that is ranged over; lookups only.
//
// Sources: CHANGELOGs of etcd, --help of 2.3.8, 3.2.24, 3.3.27, 3.4.25, 3.5.35, 3.6.16 and 3.7.3 and
// of their tools, and the server's source where it is not a flag.
var features = map[Feature]feature{
	V3API:           {from: []Version{{3, 0, 0}}},
	HashKV:          {from: []Version{{3, 3, 0}}},
	MoveLeader:      {from: []Version{{3, 3, 0}}},
	MetricsURLs:     {from: []Version{{3, 3, 0}}},
	LogOutput:       {from: []Version{{3, 0, 0}}, until: Version{3, 5, 0}},
	ZapLogger:       {from: []Version{{3, 4, 0}}},
	StrictByDefault: {from: []Version{{3, 0, 0}}},
	AppliedIndex:    {from: []Version{{3, 4, 0}}},
	DowngradeAPI:    {from: []Version{{3, 6, 0}}},
	StorageVersion:  {from: []Version{{3, 6, 0}}},
	MaxLearnersFlag: {from: []Version{{3, 6, 0}}},
	BumpRevision:    {from: []Version{{3, 4, 27}, {3, 5, 10}, {3, 6, 0}}},
}

// Has reports whether a release has a feature. Of an unknown version and of an
// unknown feature it says no.
func (v Version) Has(f Feature) bool {
	spans := features[f]
	if v.IsZero() || len(spans.from) == 0 || !spans.until.IsZero() && v.Compare(spans.until) >= 0 {
		return false
	}
	for _, first := range spans.from {
		if v.SameMinor(first) {
			return v.Patch >= first.Patch
		}
	}
	return v.Compare(spans.from[len(spans.from)-1]) > 0
}
