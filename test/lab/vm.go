package lab

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/test/lab/cloud"
)

// Cloud opens the lab's OpenStack, at the address at which the seed host serves it and with the password that regiond
// generated.
func (l Lab) Cloud(ctx context.Context, disk guest.Image, report func(string, ...any)) (*cloud.Cloud, error) {
	if l.Spec.OpenStack == nil {
		return nil, fmt.Errorf("lab %s has no OpenStack: its lab.yaml has no spec.openstack", l.Name)
	}
	api, err := l.Client()
	if err != nil {
		return nil, err
	}
	password, err := adminPassword(ctx, api)
	if err != nil {
		return nil, err
	}
	return cloud.Open(ctx, cloud.Config{
		URL: service.Keystone.URL(SeedAddress.String()), Password: password, Region: keystoneRegion, Dial: l.SeedNetwork().Dial,
		PhysicalNetwork: physicalNetwork, Guest: disk, Report: report,
	})
}

func adminPassword(ctx context.Context, api client.Client) (string, error) {
	const name, namespace, key = "openstack-secrets", "openstack-" + clusterName, "secrets.json"
	var secret corev1.Secret
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return "", fmt.Errorf("the password of OpenStack's administrator: %w; has `regiond lab up` got as far as OpenStack?", err)
	}
	var tree struct {
		Keystone struct {
			AdminPassword string `json:"admin_password"`
		} `json:"keystone"`
	}
	if err := json.Unmarshal(secret.Data[key], &tree); err != nil {
		return "", fmt.Errorf("secret %s/%s, key %s: %w", namespace, name, key, err)
	}
	if tree.Keystone.AdminPassword == "" {
		return "", fmt.Errorf("secret %s/%s, key %s: keystone.admin_password is empty", namespace, name, key)
	}
	return tree.Keystone.AdminPassword, nil
}

// HostName is the name of a machine's Host, by which OpenStack knows it as a node.
func (l Lab) HostName(ctx context.Context, machine string) (string, error) {
	i, err := l.index(machine)
	if err != nil || !l.Spec.Machines[i].VM() {
		return machine, err
	}
	api, err := l.Client()
	if err != nil {
		return "", err
	}
	f, err := Observe(ctx, api)
	if err != nil {
		return "", err
	}
	s := f.Server(bmcAddress(i).String())
	if s == nil {
		return "", fmt.Errorf("machine %s was not discovered yet", machine)
	}
	return s.Name, nil
}
