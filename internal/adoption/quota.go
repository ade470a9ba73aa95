package adoption

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
)

// largest is the quota of which etcd's guide says that there should be none larger.
const largest = 8 << 30

// quota is QuotaOf for all members.
func (s *Scene) quota() (bytes int64) {
	for _, m := range s.Members {
		if m.Status != nil {
			bytes = max(bytes, QuotaOf(*m.Status))
		}
	}
	return bytes
}

// QuotaOf is to how many bytes a member in the place of this one has to hold the
// database, so that it does not raise NOSPACE for all where this one does not; zero:
// etcd's default does. Releases before 3.6 do not say what theirs is.
func QuotaOf(st cluster.MemberStatus) int64 {
	switch {
	case st.Quota > cluster.DefaultQuota:
		return st.Quota
	case st.Quota < 0 || !st.Version.AtLeast(3, 6) && st.DBSize > cluster.DefaultQuota/2:
		return max(largest, 2*st.DBSize)
	}
	return 0
}

// keepQuota writes the members' quota into the spec, where a person has written none.
func (j *Join) keepQuota(ctx context.Context, s *Scene) error {
	return KeepQuota(ctx, j.Folder, s.quota())
}

// quotaOption is etcd's.
const quotaOption = "quota-backend-bytes"

// KeepQuota writes a quota in bytes into the spec, where it has none; zero: nothing.
// The smallest quota of all members raises the alarm for all of them.
func KeepQuota(ctx context.Context, f *control.Folder, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	_, err := f.AmendOptions(ctx, func(options map[string]string) (map[string]string, error) {
		if options[quotaOption] == "" {
			options[quotaOption] = strconv.FormatInt(bytes, 10)
		}
		return options, nil
	})
	if errors.Is(err, control.ErrConflict) {
		return fmt.Errorf("keep the quota: %w", errChanged) // and is looked at again
	}
	return err
}

// KeptQuota is what the spec says, in bytes; zero: nothing.
func KeptQuota(ctx context.Context, f *control.Folder) (int64, error) {
	read, err := f.ReadSpec(ctx)
	if err != nil || read.Spec == nil {
		return 0, err
	}
	args, _ := host.OptionArgs(map[string]string{quotaOption: read.Spec.Options[quotaOption]}, read.Spec.EtcdVersion)
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+quotaOption+"="); ok {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}
