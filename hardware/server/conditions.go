package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
)

// ConditionDeclared is False on a server that came from region.yaml and is no longer listed there.
const ConditionDeclared = "Declared"

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// waiting is the one sentence that every wait explains itself by.
func waiting(what string, since time.Time, do string) string {
	if since.IsZero() {
		return fmt.Sprintf("waiting for %s; %s", what, do)
	}
	return fmt.Sprintf("waiting for %s since %s; %s", what, stamp(since), do)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// bmcCondition says what is known of the BMC. blocked means that nothing may be done with the
// machine before that changes.
func bmcCondition(w Wish, f Facts) (c metav1.Condition, blocked, terminal bool) {
	bmc := fmt.Sprintf("%s@%s", w.Spec.BMC.Credentials, bmcAddress(w))
	since := func(reason string) time.Time {
		for _, c := range f.Status.Conditions {
			if c.Type == region.ConditionBMCReachable && c.Status == metav1.ConditionFalse && c.Reason == reason {
				return c.LastTransitionTime.Time
			}
		}
		return f.BMC.Time
	}
	no := func(reason, message string) metav1.Condition {
		return condition(region.ConditionBMCReachable, metav1.ConditionFalse, reason, message)
	}
	switch {
	case f.CredentialsVersion == "":
		return no(region.ReasonCredentialsMissing, fmt.Sprintf("waiting for the BMC credentials %q; add them to hardware.credentials in region.yaml", w.Spec.BMC.Credentials)), true, true
	case !f.BMC.made(w, f):
		if old := refusedBefore(w, f); old != nil {
			return *old, true, true
		}
		return condition(region.ConditionBMCReachable, metav1.ConditionUnknown, region.ReasonProbing, "waiting for the first answer of the BMC at "+bmcAddress(w)+"; nothing to do"), true, false
	case f.BMC.Outcome == OutcomeRefused:
		return no(region.ReasonAuthenticationFailed, fmt.Sprintf("the BMC refused the credentials %s (%s); correct them, they are not tried again before that, so that the BMC does not lock the user out", bmc, f.BMC.Error)), true, true
	case f.BMC.Outcome == OutcomeUnreachable:
		return no(region.ReasonUnreachable, waiting("an answer of the BMC at "+bmcAddress(w), since(region.ReasonUnreachable), "check its power, cabling and address ("+f.BMC.Error+")")), true, false
	case f.BMC.Outcome == OutcomeContradictory:
		return no(region.ReasonOrderFailed, waiting("the BMC at "+bmcAddress(w)+" to carry out an order", since(region.ReasonOrderFailed), "reset the BMC if this lasts ("+f.BMC.Error+")")), true, false
	}
	return condition(region.ConditionBMCReachable, metav1.ConditionTrue, region.ReasonAnswered, "the BMC at "+bmcAddress(w)+" answers"), false, false
}

// refusedBefore returns the recorded refusal of exactly these credentials for exactly this spec, so
// that a restart of regiond does not try them once more.
func refusedBefore(w Wish, f Facts) *metav1.Condition {
	if f.Status.BMC == nil || f.Status.BMC.CredentialsVersion != f.CredentialsVersion {
		return nil
	}
	for i := range f.Status.Conditions {
		c := f.Status.Conditions[i]
		if c.Type == region.ConditionBMCReachable && c.Status == metav1.ConditionFalse &&
			c.Reason == region.ReasonAuthenticationFailed && c.ObservedGeneration == w.Generation {
			return &c
		}
	}
	return nil
}

func bmcAddress(w Wish) string {
	if ap, ok := Endpoint(w.Spec.BMC); ok {
		return ap.String()
	}
	return w.Spec.BMC.Address
}

// sortConditions brings conditions into the order in which they become true, so that equal statuses
// are equal bytes.
func sortConditions(conditions []metav1.Condition) {
	order := map[string]int{region.ConditionBMCReachable: 1, region.ConditionInspected: 2, region.ConditionInstalled: 3, region.ConditionReady: 4}
	rank := func(c metav1.Condition) int {
		if n, ok := order[c.Type]; ok {
			return n
		}
		return len(order) + 1
	}
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Type, b.Type))
	})
}
