package adoption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/etcdargs"
)

// largest is the quota of which etcd's guide says that there should be none larger.
const largest = 8 << 30

// quota is QuotaOf for all members, and the least quota that keeps ours from raising NOSPACE where none of them does: the largest of
// theirs. unknown is what is to be said of those whose own is not known.
func (j *Join) quota(ctx context.Context, s *Scene) (bytes, least int64, unknown []string) {
	for _, m := range s.Members {
		if m.Status == nil || m.Status.Auth {
			continue
		}
		st := *m.Status
		if !TellsQuota(st.Version) && !s.isOurs(m) {
			var err error
			if st.Quota, err = j.Members.Quota(ctx, m.Member); err != nil {
				st.Quota = 0
				unknown = append(unknown, UnknownQuota(m.label(), err))
			}
		}
		bytes, least = max(bytes, QuotaOf(st)), max(least, QuotaOf(st), quotaIn(strconv.FormatInt(st.Quota, 10)))
	}
	return bytes, min(least, max(bytes, cluster.DefaultQuota)), unknown
}

// quotaIn is how much a value of the setting lets a member take: negative is no bound, and zero or no number etcd's default.
func quotaIn(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil { // a size in words
		args, _ := etcdargs.Options(map[string]string{quotaOption: value}, cluster.MustVersion("3.6.0"))
		n, err = strconv.ParseInt(strings.TrimPrefix(strings.Join(args, ""), "--"+quotaOption+"="), 10, 64)
	}
	switch {
	case err != nil || n == 0:
		return cluster.DefaultQuota
	case n < 0:
		return math.MaxInt64
	}
	return n
}

// settings are those that the spec is to have beside what it says: the ones that were asked for, and as large a quota as the largest
// of the members has. Where a smaller one is asked for or written, the members' is taken: ours would raise NOSPACE for all of them.
func (j *Join) settings(ctx context.Context, s *Scene) (wanted map[string]string, unknown []string) {
	wanted = map[string]string{}
	said := ""
	if s.Spec != nil {
		said = s.Spec.Options[quotaOption]
	}
	for name, value := range j.Options {
		if s.Spec == nil || s.Spec.Options[name] == "" {
			wanted[name] = value
		}
	}
	said = cmp.Or(said, j.Options[quotaOption])
	bytes, least, unknown := j.quota(ctx, s)
	switch {
	case said == "" && bytes > 0:
		wanted[quotaOption] = strconv.FormatInt(bytes, 10)
	case said != "" && quotaIn(said) < least:
		wanted[quotaOption] = strconv.FormatInt(least, 10)
	}
	return wanted, unknown
}

// TellsQuota is that members of a release tell their quota in their status.
func TellsQuota(v cluster.Version) bool { return v.AtLeast(3, 6) }

// UnknownQuota is what a person is told of a member whose quota cannot be read.
func UnknownQuota(label string, err error) string {
	return fmt.Sprintf("to which quota member %s holds its database is not known (%v): look at its --%s, and where that is larger than %d say so once the spec is in the store, before the database grows: etcdadm config set %s=BYTES",
		label, err, quotaOption, int64(cluster.DefaultQuota), quotaOption)
}

// QuotaOf is to how many bytes a member in the place of this one has to hold the
// database, so that it does not raise NOSPACE for all where this one does not; zero:
// etcd's default does. The status of releases before 3.6 lacks it: it is to be filled in
// from what the member measures, and where that cannot be read, a large database is
// taken for one with a large quota. No quota becomes a large one, since the spec has no
// word for none.
func QuotaOf(st cluster.MemberStatus) int64 {
	switch {
	case st.Quota > cluster.DefaultQuota:
		return st.Quota
	case st.Quota < 0 || st.Quota == 0 && !TellsQuota(st.Version) && st.DBSize > cluster.DefaultQuota/2:
		return max(largest, 2*st.DBSize)
	}
	return 0
}

// quotaOption is etcd's.
const quotaOption = "quota-backend-bytes"

// KeepQuota writes a quota in bytes into the spec, where it has none; zero: nothing.
// The smallest quota of all members raises the alarm for all of them.
func KeepQuota(ctx context.Context, f *control.Folder, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return keepOptions(ctx, f, map[string]string{quotaOption: strconv.FormatInt(bytes, 10)})
}

// keepOptions writes settings of etcd into the spec, those that it does not say, and a larger quota. Where
// others write at the same time it is tried again; ErrAgain: they always came first.
func keepOptions(ctx context.Context, f *control.Folder, wanted map[string]string) error {
	if len(wanted) == 0 {
		return nil
	}
	for try := 1; ; try++ {
		err := atStore(ctx, "write settings of etcd into the spec", func(ctx context.Context) error {
			_, err := f.Settings().AmendOptions(ctx, func(options map[string]string) (map[string]string, error) {
				for name, value := range wanted {
					if options[name] == "" || name == quotaOption && quotaIn(options[name]) < quotaIn(value) {
						options[name] = value
					}
				}
				return options, nil
			})
			return err
		})
		if !errors.Is(err, control.ErrConflict) {
			return err
		}
		if try == changeTries {
			return fmt.Errorf("write settings of etcd into the spec, tried %d times: %w; %w", try, err, ErrAgain)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(changePause):
		}
	}
}

// KeptQuota is what the spec says, in bytes; zero: nothing.
func KeptQuota(ctx context.Context, f *control.Folder) (int64, error) {
	read, err := readSpec(ctx, f)
	if err != nil || read.Spec == nil {
		return 0, err
	}
	args, _ := etcdargs.Options(map[string]string{quotaOption: read.Spec.Options[quotaOption]}, read.Spec.EtcdVersion)
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+quotaOption+"="); ok {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}
