package images

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// modulePlan is which of the kernel's modules go into the initramfs.
type modulePlan struct {
	// files below lib/modules/<release>, in order of dependency.
	files []string
	// needs maps a file to all the files it needs, directly or indirectly, as in modules.dep.
	needs map[string][]string
	// names of the modules, with underscores.
	names map[string]bool
}

// planModules looks up modules by name in the texts of modules.dep and modules.builtin (depmod(8)).
// A name that is in neither is an error: a driver that a new kernel has renamed must not go missing
// unnoticed.
func planModules(wanted []string, dep, builtin string) (*modulePlan, error) {
	plan := &modulePlan{needs: map[string][]string{}, names: map[string]bool{}}
	byName := map[string]string{}
	for line := range strings.Lines(dep) {
		file, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		plan.needs[file] = strings.Fields(needs)
		byName[moduleName(file)] = file
	}
	isBuiltin := map[string]bool{}
	for line := range strings.Lines(builtin) {
		isBuiltin[moduleName(strings.TrimSpace(line))] = true
	}
	var missing []string
	var add func(file string)
	add = func(file string) {
		name := moduleName(file)
		if plan.names[name] {
			return
		}
		plan.names[name] = true
		for _, need := range plan.needs[file] {
			add(need)
		}
		plan.files = append(plan.files, file)
	}
	for _, name := range wanted {
		switch file, ok := byName[name]; {
		case ok:
			add(file)
		case !isBuiltin[name]:
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("kernel modules %s of node/modules are not in this kernel; correct the names there, or node/exclude if it left them out",
			strings.Join(missing, ", "))
	}
	return plan, nil
}

// moduleName returns the module's name of a file such as kernel/drivers/net/virtio_net.ko.xz. The
// kernel does not distinguish - and _ (modprobe(8)).
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// initramfsModule is a file's name in the initramfs, which holds all modules uncompressed in one
// folder.
func initramfsModule(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return name + ".ko"
}

// order is the content of modules/order: all modules in order of dependency.
func (p *modulePlan) order() string {
	var b strings.Builder
	for _, file := range p.files {
		b.WriteString(initramfsModule(file) + "\n")
	}
	return b.String()
}

// dep is the content of modules/modules.dep, in the format of depmod(8).
func (p *modulePlan) dep() string {
	var b strings.Builder
	for _, file := range p.files {
		b.WriteString(initramfsModule(file) + ":")
		for _, need := range p.needs[file] {
			b.WriteString(" " + initramfsModule(need))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// aliases returns the lines of modules.alias that name the plan's modules.
func (p *modulePlan) aliases(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "alias" && p.names[strings.ReplaceAll(fields[2], "-", "_")] {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	// depmod's order varies from run to run.
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}
