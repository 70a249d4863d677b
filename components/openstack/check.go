package openstack

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// Check reports problems of a region file beyond those that Load refuses: in its declaration
// (check.Document.CheckDeclaration), in rendering its OpenStack clusters, unused values, and
// patches that match nothing. readPatches reads a folder like ReadPatches. Nil means that the file
// is checked away from its seed host, without patches.
func Check(doc *check.Document, readPatches func(dir string) ([]region.Patch, error)) (check.Problems, error) {
	c, err := Default()
	if err != nil {
		return nil, err
	}
	r := doc.Region.DeepCopy()
	region.Default(r)
	problems := doc.CheckDeclaration()
	for i := range r.Spec.OpenStack.Clusters {
		d := &r.Spec.OpenStack.Clusters[i]
		field := fmt.Sprintf("spec.openstack.clusters[%d]", i)
		for _, p := range c.source.Check(configgen.Cluster{Declaration: d, Region: r.Name, Field: field, Position: doc.Position}, examples(d)) {
			problems = append(problems, atField(doc, p, field))
		}
		problems = append(problems, undeclaredHosts(doc, r, d, field)...)
		problems = append(problems, otherDebian(doc, r, d, field)...)
		problems = append(problems, c.mtus(doc, r, d, field)...)
		if readPatches != nil {
			problems = append(problems, c.checkPatches(doc, d, field, readPatches)...)
		}
	}
	return problems.Merge(nil), nil // in the order of the file
}

// atField places a problem at its field, or at the cluster if the field is not in the file.
func atField(doc *check.Document, p *configgen.Problem, cluster string) check.Problem {
	field, message := p.Field, p.Message
	if field == "" {
		field, message = cluster, p.Error()
	}
	out := doc.ProblemAt(field, message)
	out.Warning = p.Warning
	return out
}

// examples returns the hosts with values of their own, and one without, which represents all
// others.
func examples(d *region.OpenStackDeclaration) []configgen.Node {
	const documentation = "192.0.2.1" // RFC 5737
	nodes := []configgen.Node{{Name: "node", Address: documentation}}
	for _, n := range d.Nodes {
		if n.Name != "" {
			nodes = append(nodes, configgen.Node{Name: n.Name, Address: documentation})
		}
	}
	return nodes
}

// undeclaredHosts warns about values for hosts that the file does not declare. A server that is
// discovered, or a machine that is enrolled, may get the name later.
func undeclaredHosts(doc *check.Document, r *region.Region, d *region.OpenStackDeclaration, field string) (problems check.Problems) {
	names := make([]string, len(r.Spec.Hardware.Servers))
	for i, s := range r.Spec.Hardware.Servers {
		names[i] = s.Name
	}
	for i, n := range d.Nodes {
		if n.Name == "" || slices.Contains(names, n.Name) {
			continue
		}
		p := doc.ProblemAt(fmt.Sprintf("%s.nodes[%d].name", field, i), fmt.Sprintf("%q is not the name of any server in spec.hardware.servers", n.Name))
		if c := check.Closest(n.Name, names); c != "" {
			p.Suggestion = fmt.Sprintf("did you mean %q?", c)
		} else {
			p.Warning = true
			p.Suggestion = "these values have no effect until a discovered or enrolled host has this name"
		}
		problems = append(problems, p)
	}
	return problems
}

// otherDebian warns about a release that is packaged in another Debian than the hosts'. It is only
// a warning because it works: hosts are configured for the release that they run, and OpenStack
// supports compute services that are one SLURP release behind their control plane, as epoxy is
// behind gazpacho (OpenStack TC resolution of 2022-02-10). Hosts ahead of the control plane can't
// be declared: there is no node image of a later Debian.
func otherDebian(doc *check.Document, r *region.Region, d *region.OpenStackDeclaration, field string) check.Problems {
	debian := oci.Debian(string(d.Release))
	if debian == "" || debian == r.Spec.Images.Node {
		return nil
	}
	p := doc.ProblemAt(field+".release", fmt.Sprintf("%q is packaged in Debian %s, and hosts are installed with %s (spec.images.node)",
		d.Release, debian, r.Spec.Images.Node))
	p.Suggestion, p.Warning = fmt.Sprintf("hosts run the release of OpenStack that is in %s", r.Spec.Images.Node), true
	return check.Problems{p}
}

func (c *Composer) checkPatches(doc *check.Document, d *region.OpenStackDeclaration, field string,
	read func(dir string) ([]region.Patch, error)) (problems check.Problems) {
	path, dir := field+".patchesDir", d.PatchesDir
	if dir == "" {
		path, dir = field, DefaultPatchesDir(d.Name)
	}
	patches, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) && d.PatchesDir == "" {
		return nil
	}
	if err == nil {
		err = kustomize.CheckPatches(c.base, kustomize.Overlay{Namespace: Namespace(d.Name), Labels: labels(d.Name), Patches: patches})
	}
	for _, p := range configgen.Problems(err) {
		problems = append(problems, doc.ProblemAt(path, "patches: "+p.Error()))
	}
	return problems
}
