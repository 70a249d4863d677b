# regiond: build, test and run. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
include build.env
export CGO_ENABLED
export GOFLAGS := $(subst ",,$(GOFLAGS))

# Everything but `help` and `clean` first brings the machine to where it can build (Debian packages, Go).
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),help)),)
GO_DIR := $(shell scripts/setup)
ifeq ($(GO_DIR),)
$(error scripts/setup failed, see above)
endif
export PATH := $(GO_DIR):$(PATH)
endif

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
KUBE     := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' go.mod)
CONTAINERD := $(shell awk '$$1 == "github.com/containerd/containerd/v2" { print $$2 }' go.mod)
KUBE_MINOR := $(word 2,$(subst ., ,$(KUBE)))
# -X only changes what is linked: it recompiles nothing.
LDFLAGS  := -s -w -X main.version=$(VERSION) \
	-X k8s.io/component-base/version.gitVersion=$(KUBE) \
	-X k8s.io/component-base/version.gitMajor=1 \
	-X k8s.io/component-base/version.gitMinor=$(KUBE_MINOR) \
	-X k8s.io/component-base/version.gitTreeState=clean \
	-X github.com/containerd/containerd/v2/version.Version=$(CONTAINERD)

REGIOND  := bin/regiond
LAB      ?= default
# Two packages link Kubernetes. They are built, not tested by `go test`, which would also analyse its 3,000
# packages: what tests them runs the binary.
PACKAGES = $$(go list ./... | grep -v -e /cmd/regiond'$$' -e /bootstrap/kube'$$')
LINKS_KUBERNETES := ./cmd/regiond ./bootstrap/kube
TAGS     := $(patsubst -tags=%,%,$(filter -tags=%,$(GOFLAGS)))

.PHONY: help build payload images test integration lab lab-down e2e e2e-lab e2e-install e2e-readmit e2e-previous e2e-tempest e2e-backup e2e-keys e2e-cold-start e2e-ansible e2e-firmware e2e-debian lint generate bench clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: payload ## build bin/regiond with all that it carries
	@mkdir -p bin
	@echo "building $(REGIOND) (the first time this compiles Kubernetes: 10 to 20 minutes)"
	@time go build -ldflags '$(LDFLAGS)' -o $(REGIOND) ./cmd/regiond
	@size=$$(stat -c %s $(REGIOND)); [ $$size -le 250000000 ] || { echo "$(REGIOND) has $$size bytes, the limit is 250 MB; see docs/performance.md" >&2; exit 1; }

payload: ## build what the binary carries: runc, CNI plugins, shim, pause, CoreDNS, node agent, installer
	bootstrap/payload/build.sh

images: build ## build the node image and the netboot files
	$(REGIOND) image build

lab: build ## a region in namespaces and virtual servers, up to two virtual machines that ping each other (LAB=name)
	$(REGIOND) lab up --lab $(LAB)
	$(REGIOND) lab vm create --lab $(LAB) vm1 vm2
	$(REGIOND) lab vm ping --lab $(LAB) vm1 vm2
	$(REGIOND) lab vm ping --lab $(LAB) vm2 vm1
	$(REGIOND) lab vm console --lab $(LAB) vm1
	$(REGIOND) lab vm console --lab $(LAB) vm2
	$(REGIOND) lab exec --lab $(LAB) -- regiond status

lab-down: ## end the lab and remove everything it made (LAB=name)
	$(REGIOND) lab down --lab $(LAB)

test: ## run the tests that need no built binary
	go test $(PACKAGES)

integration: build ## run the tests that need the binary, an image, or a virtual machine
	$(REGIOND) image build
	go test -count=1 -tags=$(TAGS),integration ./test/cli -regiond=$(abspath $(REGIOND))
	go test -count=1 -timeout 20m -tags=$(TAGS),integration ./bootstrap/kube/cluster -regiond=$(abspath $(REGIOND))
	go test -count=1 -tags=$(TAGS),integration ./images/containerd -regiond=$(abspath $(REGIOND))
	s3=$$(scripts/build-s3) && go test -count=1 -tags=$(TAGS),integration -run S3 ./bootstrap/backup -s3=$$s3
	promtool=$$(scripts/fetch-promtool)/promtool && go test -count=1 -tags=$(TAGS),integration -run Promtool ./status/monitoring -promtool=$$promtool
	go test -count=1 -timeout 20m -tags=$(TAGS),envtest ./hardware -regiond=$(abspath $(REGIOND))
	go test -count=1 -timeout 20m -tags=$(TAGS),envtest ./bootstrap/manager -regiond=$(abspath $(REGIOND))
	go test -count=1 -timeout 20m -tags=$(TAGS),envtest ./components/plan -regiond=$(abspath $(REGIOND))
	go test -count=1 -timeout 20m -tags=$(TAGS),envtest ./components/cluster -run Run -regiond=$(abspath $(REGIOND))
	go test -count=1 -timeout 20m -tags=$(TAGS),integration -run Ansible ./components/configgen

e2e: build ## the core path: from nothing to two guests that ping each other, and faults on the way
	go test -count=1 -v -timeout 55m -tags=$(TAGS),e2e -run '^TestOpenStack' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-lab: build ## what `make lab` does: two servers from nothing to guests that ping each other
	go test -count=1 -v -timeout 90m -tags=$(TAGS),e2e -run '^TestLab$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-install: build ## servers from discovery to Ready: UEFI, BIOS, two labs, power cuts, kills in each stage
	go test -count=1 -v -timeout 60m -tags=$(TAGS),e2e -run '^(TestRegion|TestBIOS|TestTwoLabs|TestKilledInEachStage)$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-readmit: build ## a host whose certificate expired comes back by its key, with its data; earlier certificates have no rights
	go test -count=1 -v -timeout 30m -tags=$(TAGS),e2e -run '^TestReadmission$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-previous: build ## a running region of the version that landed last, under this version's program
	previous=$$(scripts/build-previous) && go test -count=1 -v -timeout 30m -tags=$(TAGS),e2e -run '^TestPrevious$$' ./test/e2e -regiond=$(abspath $(REGIOND)) -previous=$$previous

e2e-tempest: build ## OpenStack's own tests of a cloud: tempest's identity, image, network and compute sets
	tempest=$$(scripts/build-tempest) && go test -count=1 -v -timeout 60m -tags=$(TAGS),e2e -run '^TestTempest$$' ./test/e2e -regiond=$(abspath $(REGIOND)) -tempest=$$tempest

e2e-backup: build ## the seed host is lost with its disks, and restored from a backup while guests run on
	go test -count=1 -v -timeout 45m -tags=$(TAGS),e2e -run '^TestBackup$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-keys: build ## the keys that Keystone signs tokens with rotate while it runs, on a namespace node
	go test -count=1 -v -timeout 45m -tags=$(TAGS),e2e -run '^TestFernetKeys$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-cold-start: build ## all hosts lose their power at once, and the region comes back without hands, with its guests
	go test -count=1 -v -timeout 45m -tags=$(TAGS),e2e -run '^TestColdStart$$' ./test/e2e -regiond=$(abspath $(REGIOND))

e2e-ansible: build ## Ansible brings a Debian host to a compute host whose services run, in namespaces under real systemd
	$(REGIOND) image build
	go test -count=1 -timeout 20m -tags=$(TAGS),integration -run Playbook ./components/configgen

e2e-firmware: build ## real firmware and operating systems in QEMU: netboot, the installer, the guest; a node with real systemd
	$(REGIOND) image build
	go test -count=1 -timeout 20m -tags=$(TAGS),integration -run Boots ./hardware/netboot
	go test -count=1 -timeout 20m -tags=$(TAGS),integration -run NamespaceNode ./node
	go test -count=1 -timeout 20m -tags=$(TAGS),integration -run QEMU ./hardware/installer
	go test -count=1 -tags=$(TAGS),integration -run QEMU ./images/guest

e2e-debian: build ## install regiond on a Debian 13 machine with systemd and cgroup v2, in QEMU (half an hour)
	test/debian/run $(REGIOND)

# What links Kubernetes is checked by the analysers that need no facts of its packages.
lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -d $$(git ls-files '*.go'); exit 1; }
	@echo go vet, staticcheck
	@cd tools && GOFLAGS=-buildvcs=false go build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@go vet -tags=$(TAGS),integration,envtest,e2e $(PACKAGES)
	@bin/staticcheck -tags=$(TAGS),integration,envtest,e2e $(PACKAGES)
	go vet -assign -atomic -bools -copylocks -lostcancel -nilfunc -shift -stdmethods -structtag -unmarshal -unreachable $(LINKS_KUBERNETES)

generate: ## regenerate code and CRDs
	cd tools && GOFLAGS=-buildvcs=false go build -o ../bin/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen
	bin/controller-gen object paths=./region paths=./machine/inventory crd output:crd:artifacts:config=region/crd

bench: build ## print the figures beside their limits
	distribution=$$(scripts/fetch-distribution) && kubeadm=$$(scripts/build-kubeadm) && \
		go run ./test/bench -regiond $(REGIOND) -distribution=$$distribution -kubeadm=$$kubeadm

clean: ## remove what was built here (caches and images stay)
	rm -rf bin
