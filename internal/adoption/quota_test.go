package adoption

import (
	"context"
	"maps"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// roomy has members that hold their database to a quota.
type roomy struct {
	*world
	quota int64
}

func (r *roomy) Status(ctx context.Context, m cluster.Member) (cluster.MemberStatus, error) {
	st, err := r.world.Status(ctx, m)
	st.Quota = r.quota
	return st, err
}

// The larger of the members' quota and of the one that is asked for, or written, is taken: with the smaller one ours would raise NOSPACE
// for all of them. The dry run shows what the run writes.
func TestTheLargerQuotaIsTaken(t *testing.T) {
	const gib = 1 << 30
	for what, c := range map[string]struct {
		members               int64
		asked, written, comes string
	}{
		"theirs is etcd's":       {2 * gib, "", "", ""},
		"theirs is larger":       {8 * gib, "", "", "8589934592"},
		"a smaller one is asked": {8 * gib, "2147483648", "", "8589934592"},
		"in words":               {8 * gib, "4GiB", "", "8589934592"},
		"a larger one is asked":  {8 * gib, "9663676416", "", "9663676416"},
		"a smaller than etcd's":  {2 * gib, "104857600", "", "2147483648"},
		"theirs is as small":     {104857600, "104857600", "", "104857600"},
		"no bound is asked":      {8 * gib, "-1", "", "-1"},
		"theirs has no bound":    {-1, "4294967296", "", "8589934592"},
		"a smaller is written":   {8 * gib, "", "2147483648", "8589934592"},
		"a larger is written":    {3 * gib, "", "8GiB", "8GiB"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1, 3)
			j := w.host(1)
			j.Members = &roomy{w, c.members}
			j.Options = map[string]string{"snapshot-count": "5000"}
			if c.asked != "" {
				j.Options[quotaOption] = c.asked
			}
			if c.written != "" {
				if err := j.Folder.WriteSpec(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16"), Options: map[string]string{quotaOption: c.written}}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := j.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := &Plan{}
			j.settingsSteps(t.Context(), p, s)
			if err := j.backUp(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			read, err := control.New(w.store, "c").ReadSpec(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"snapshot-count": "5000"}
			if c.comes != "" {
				want[quotaOption] = c.comes
			}
			if !maps.Equal(read.Spec.Options, want) {
				t.Errorf("written is %v, want %v", read.Spec.Options, want)
			}
			if shown := strings.Join(p.Steps, "\n"); c.comes != c.written && !strings.Contains(shown, quotaOption+"="+c.comes) || c.comes == c.written && strings.Contains(shown, quotaOption) || !strings.Contains(shown, "snapshot-count=5000") {
				t.Errorf("shown is %s", shown)
			}
		})
	}
}
