package cluster

import (
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/region/span"
)

// time records how long a job took, once it has ended. Only those that this process has seen run
// count: others are told of already.
func (o *observations) time(j *batchv1.Job) {
	failed, completed := failedAt(j), j.Status.CompletionTime
	if failed.IsZero() && completed == nil {
		if o.running == nil {
			o.running = map[types.UID]bool{}
		}
		o.running[j.UID] = true
		return
	}
	if !o.running[j.UID] || j.Status.StartTime == nil {
		return
	}
	delete(o.running, j.UID)
	if completed != nil {
		span.Past("job "+j.Name, j.Namespace, j.Status.StartTime.Time, completed.Time, nil)
		return
	}
	span.Past("job "+j.Name, j.Namespace, j.Status.StartTime.Time, failed, errors.New("no more retries by Kubernetes"))
}
