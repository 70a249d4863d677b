package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the status of a check.
type Status string

// Statuses: a failed check stops the bootstrap, a warning does not.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is the result of a check.
type Result struct {
	// Check is the name of the check, which is stable for programs.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Message says what was found.
	Message string `json:"message"`
	// Fix says what to do about it; empty if the check passed.
	Fix string `json:"fix,omitempty"`
}

// Report has the results of all checks, in a fixed order.
type Report []Result

// Failed returns the failed checks.
func (r Report) Failed() Report {
	return slices.DeleteFunc(slices.Clone(r), func(x Result) bool { return x.Status != Fail })
}

// Summary summarizes the number of results.
func (r Report) Summary() string {
	n := map[Status]int{}
	for _, x := range r {
		n[x.Status]++
	}
	return fmt.Sprintf("%d checks passed, %d with warnings, %d failed", n[OK], n[Warn], n[Fail])
}

// Err returns an error with all failed checks and their fixes, nil if none failed.
func (r Report) Err() error {
	failed := r.Failed()
	if len(failed) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "this host can't become the seed host yet; %d of %d checks failed:", len(failed), len(r))
	for _, f := range failed {
		fmt.Fprintf(&b, "\n  %s: %s\n    fix: %s", f.Check, f.Message, f.Fix)
	}
	return fmt.Errorf("%s", b.String())
}

// Check evaluates a host.
func Check(h Host, w Requirements) Report {
	r := Report{
		root(h), instance(h), kernel(h), cgroups(h), overlay(h), nftables(h), bridgeNetfilter(h),
		dataDirectory(h, w), disk(h, w), memory(h), swap(h), hostname(h), clock(h), forwarding(h),
		address(h, "management-address", "spec.networks.management.address", w.Management, ""),
		address(h, "provisioning-address", "spec.networks.provisioning.address", w.Provisioning, w.Interface),
		provisioningInterface(h, w),
	}
	r = append(r, nodeImage(h, w), credentials(h))
	return append(r, portChecks(h, w)...)
}

func ok(check, format string, a ...any) Result {
	return Result{Check: check, Status: OK, Message: fmt.Sprintf(format, a...)}
}

func warn(check, fix, format string, a ...any) Result {
	return Result{Check: check, Status: Warn, Message: fmt.Sprintf(format, a...), Fix: fix}
}

func fail(check, fix, format string, a ...any) Result {
	return Result{Check: check, Status: Fail, Message: fmt.Sprintf(format, a...), Fix: fix}
}
