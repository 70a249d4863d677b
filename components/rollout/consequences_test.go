package rollout_test

import (
	"strings"
	"testing"

	"regiond.dev/regiond/components/rollout"
)

func TestConsequences(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api}\nspec: {replicas: 1, strategy: {type: Recreate}, template: {a: 1}}"
	for _, tt := range []struct {
		name, live, result, want string
		action                   rollout.Action
	}{
		{"recreate", deployment, strings.Replace(deployment, "a: 1", "a: 2", 1), "pods of nova-api restart: old ones stop before new ones start; it is unavailable until they are ready", rollout.ActionUpdate},
		{"rolling", deployment, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nova-api}\nspec: {template: {a: 2}}", "pods of nova-api restart: new ones are ready before old ones stop", rollout.ActionUpdate},
		{"scale", deployment, strings.Replace(deployment, "replicas: 1", "replicas: 3", 1), "it is scaled from 1 to 3 pods; running pods are kept", rollout.ActionUpdate},
		{"label", deployment, strings.Replace(deployment, "nova-api}", "nova-api, labels: {a: b}}", 1), "", rollout.ActionUpdate},
		{"stateful", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb}\nspec: {template: {a: 1}}", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mariadb}\nspec: {template: {a: 2}}",
			"pods of mariadb restart one by one; each is unavailable until it is ready again", rollout.ActionUpdate},
		{"service", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {template: {a: 1}}", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {template: {a: 2}}", "", rollout.ActionUpdate},
		{"job", deployment, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: schema}", "it runs once", rollout.ActionCreate},
		{"gone", deployment, deployment, "its pods stop", rollout.ActionDelete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := rollout.NewChange(tt.action, object(t, tt.live), object(t, tt.result)).Consequence; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
