package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/region"
	bounded "regiond.dev/regiond/region/condition"
)

// ConditionDeclared is False on a server that came from region.yaml and is no longer listed there.
const ConditionDeclared = "Declared"

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: bounded.Message(message)}
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
func bmcCondition(want Desired, f Facts) (c metav1.Condition, blocked, terminal bool) {
	bmc := fmt.Sprintf("%s@%s", want.Spec.BMC.Credentials, bmcAddress(want))
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
		return no(region.ReasonCredentialsMissing, fmt.Sprintf("waiting for the BMC credentials %q; add them to hardware.credentials in region.yaml", want.Spec.BMC.Credentials)), true, true
	case !f.BMC.made(want, f):
		if old, _ := refusedBefore(want, f); old != nil {
			return *old, true, true
		}
		return condition(region.ConditionBMCReachable, metav1.ConditionUnknown, region.ReasonProbing, "waiting for the first answer of the BMC at "+bmcAddress(want)+"; nothing to do"), true, false
	case f.BMC.Outcome == OutcomeRefused:
		return no(cmp.Or(f.BMC.Reason, region.ReasonAuthenticationFailed), fmt.Sprintf("the BMC refused the credentials %s (%s); correct them, until they change they are tried only every %s, so that the BMC does not lock the user out",
			bmc, f.BMC.Error, refusedRetry)), true, true
	case f.BMC.Outcome == OutcomeUnreachable:
		reason := cmp.Or(f.BMC.Reason, region.ReasonUnreachable)
		what, advice := unusable(reason)
		return no(reason, waiting(what+" of the BMC at "+bmcAddress(want), since(reason), advice+" ("+f.BMC.Error+")")), true, false
	case f.BMC.Outcome == OutcomeContradictory:
		reason := cmp.Or(f.BMC.Reason, region.ReasonOrderFailed)
		return no(reason, waiting("the BMC at "+bmcAddress(want)+" to carry out an order", since(reason), "reset the BMC if this lasts ("+f.BMC.Error+")")), true, false
	}
	return condition(region.ConditionBMCReachable, metav1.ConditionTrue, region.ReasonAnswered, "the BMC at "+bmcAddress(want)+" answers"), false, false
}

// unusable says what is waited for of a BMC that can't be used, and what to do.
func unusable(reason string) (what, advice string) {
	switch reason {
	case region.ReasonBMCKeyRequired, region.ReasonBMCKeyRefused:
		return "the key (K_G)", "correct bmcKey in the credentials file, or clear the key on the BMC"
	case region.ReasonUnreachable, region.ReasonNoAnswer:
		return "an answer", "check its power, cabling and address"
	}
	return "an answer", "look at the BMC if this lasts"
}

// refusedBefore returns the recorded refusal of exactly these credentials for exactly this spec, so
// that a restart of regiond does not try them once more, and the time until which it holds.
func refusedBefore(want Desired, f Facts) (*metav1.Condition, time.Time) {
	if f.Status.BMC == nil || f.Status.BMC.CredentialsVersion != f.CredentialsVersion {
		return nil, time.Time{}
	}
	for i := range f.Status.Conditions {
		c := f.Status.Conditions[i]
		if c.Type != region.ConditionBMCReachable || c.Status != metav1.ConditionFalse || c.ObservedGeneration != want.Generation {
			continue
		}
		switch c.Reason {
		case region.ReasonAuthenticationFailed, region.ReasonCredentialsInvalid, region.ReasonPrivilegeInsufficient:
			at := c.LastTransitionTime.Time // all that earlier versions wrote down
			if t := f.Status.BMC.CredentialsRefused; t != nil {
				at = t.Time
			}
			return &c, at.Add(refusedRetry)
		}
	}
	return nil, time.Time{}
}

func bmcAddress(want Desired) string {
	if ap, ok := Endpoint(want.Spec.BMC); ok {
		return ap.String()
	}
	return want.Spec.BMC.Address
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
