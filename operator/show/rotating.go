package show

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rotating says how far the authorities are rotated, and what that waits for; nil: nothing is to be said.
func (s Seen) rotating(out *v1alpha1.ClusterStatus) *condition {
	a := s.World.Authorities
	steps := map[cluster.RotationPhase]struct{ reason, text string }{
		cluster.RotateTrust: {"TrustBoth", "1 of 3: the former authorities and the next ones are trusted"},
		cluster.RotateSign:  {"NextSign", "2 of 3: certificates of the next authorities are shown, and both are trusted"},
		cluster.RotateDrop:  {"FormerOut", "3 of 3: the former authorities are trusted no more"},
	}
	shown := meta.FindStatusCondition(out.Conditions, v1alpha1.Rotating)
	switch {
	case a == nil, !a.There && a.Phase == "" && (shown == nil || shown.Status == metav1.ConditionFalse):
		return nil
	case !a.There:
		return &condition{v1alpha1.Rotating, metav1.ConditionUnknown, "KeysLost", "the Secret with the authorities' keys, which says how far it is, is gone or was changed: hosts stay as they are, and nothing goes on. See the condition Ready"}
	case a.Phase == cluster.RotateDone && s.aside() != nil:
		w := s.aside()
		return &condition{v1alpha1.Rotating, metav1.ConditionFalse, string(w.Code), w.Sentence}
	case a.Phase == cluster.RotateDone && s.Decision.Ending != nil:
		e := s.Decision.Ending
		return &condition{v1alpha1.Rotating, metav1.ConditionFalse, "Due", fmt.Sprintf("the authorities end at %s, and others are to be made: %s", e.At.UTC().Format(time.RFC3339), e.Keeps)}
	case a.Phase == cluster.RotateDone && !a.Ends.IsZero() && s.World.Now.After(a.Ends):
		return &condition{v1alpha1.Rotating, metav1.ConditionFalse, "Ended", fmt.Sprintf("by the operator's clock the authorities ended at %s, and no others are there: see the condition Ready", a.Ends.UTC().Format(time.RFC3339))}
	case a.Phase == cluster.RotateDone:
		if shown == nil {
			return nil
		}
		return &condition{v1alpha1.Rotating, metav1.ConditionFalse, "Done", "the authorities were replaced"}
	}
	c := condition{v1alpha1.Rotating, metav1.ConditionTrue, steps[a.Phase].reason, steps[a.Phase].text}
	if e := s.Decision.Ending; e != nil {
		c.text += ". The authorities that sign now end at " + e.At.UTC().Format(time.RFC3339)
	}
	switch r := s.Decision.Rotation; {
	case r == nil:
		c.text += ". Nothing goes on now; see the condition Ready"
	case r.Waits != "":
		c.text += ". It waits: " + r.Waits
	}
	if w := s.aside(); w != nil {
		c.text += ". " + w.Sentence
	}
	return &c
}

// aside is what is waited for while the cluster goes on as well as before; nil: nothing.
func (s Seen) aside() *decide.Wait {
	for i := range s.Decision.Waits {
		if s.Decision.Waits[i].Aside {
			return &s.Decision.Waits[i]
		}
	}
	return nil
}
