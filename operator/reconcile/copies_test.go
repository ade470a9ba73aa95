package reconcile

import (
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
)

// Another source, another store or other credentials of either are another Job, which a Job that failed without them keeps from
// nothing. What is asked for again is the same one.
func TestJobOfACopy(t *testing.T) {
	asks := func(change func(*v1alpha1.ClusterSpec)) copying {
		ec := &v1alpha1.EtcdCluster{}
		ec.UID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
		ec.Spec.Backup = &v1alpha1.BackupPolicy{Store: "s3://b/main", Credentials: &v1alpha1.SecretName{Name: "own"}}
		ec.Spec.Bootstrap = &v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Backup: "b", From: &v1alpha1.OtherStore{Store: "s3://b/other", Credentials: v1alpha1.SecretName{Name: "other"}}}}
		change(&ec.Spec)
		return *(&sight{cluster: ec}).bootCopy()
	}
	from := func(s *v1alpha1.ClusterSpec) *v1alpha1.OtherStore { return s.Bootstrap.Restore.From }
	claims := func(s *v1alpha1.ClusterSpec) { s.Bootstrap = &v1alpha1.Bootstrap{Claims: []string{"a", "b"}} }
	jobs := map[string]string{}
	for what, change := range map[string]func(*v1alpha1.ClusterSpec){
		"as it is":           func(*v1alpha1.ClusterSpec) {},
		"another backup":     func(s *v1alpha1.ClusterSpec) { s.Bootstrap.Restore.Backup = "c" },
		"another source":     func(s *v1alpha1.ClusterSpec) { from(s).Store = "s3://b/third" },
		"its credentials":    func(s *v1alpha1.ClusterSpec) { from(s).Credentials.Name = "new" },
		"another store":      func(s *v1alpha1.ClusterSpec) { s.Backup.Store = "s3://b/next" },
		"the store's":        func(s *v1alpha1.ClusterSpec) { s.Backup.Credentials.Name = "new" },
		"none of the store":  func(s *v1alpha1.ClusterSpec) { s.Backup.Credentials = nil },
		"claims":             claims,
		"claims, next store": func(s *v1alpha1.ClusterSpec) { claims(s); s.Backup.Store = "s3://b/next" },
		"fewer claims":       func(s *v1alpha1.ClusterSpec) { claims(s); s.Bootstrap.AcceptFewer = true },
	} {
		c := asks(change)
		if again := asks(change); again.Job != c.Job || again.Backup != c.Backup {
			t.Errorf("%s: %s, and again %s", what, c.Job, again.Job)
		}
		if same, is := jobs[c.Job]; is || len(c.Job) > 63 {
			t.Errorf("%s: Job %s is that of %q", what, c.Job, same)
		}
		jobs[c.Job] = what
	}
	if a, b := asks(claims), asks(func(s *v1alpha1.ClusterSpec) { claims(s); s.Backup.Store = "s3://b/next" }); a.Backup != b.Backup {
		t.Errorf("what is made of the same claims is called %s and %s", a.Backup, b.Backup)
	}
}
