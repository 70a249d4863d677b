#!/bin/bash
# Builds every piece of regiond's payload from source into bootstrap/payload/files/ (see payload.go). Incremental: Go and the pack
# program notice what has changed; nothing is written when nothing has. Programs are kept in bin/payload, outside git.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
set -a; . ./build.env; set +a
programs=$root/bin/payload
mkdir -p "$programs" "$root/bootstrap/payload/files"
GO="nice -n 5 go"
LD="-s -w"

need() { command -v "$1" >/dev/null || { echo "payload: $1 is missing; install the package $2" >&2; exit 1; }; }
need go "of Go 1.26"
need gcc gcc
[ -e /usr/include/seccomp.h ] || { echo "payload: seccomp.h is missing; install the package libseccomp-dev" >&2; exit 1; }

# once PIECE INPUT...: true when the inputs' content differs from that of the last build of PIECE. Only for what Go's cache does not
# cover: external linking runs every time otherwise.
stamp() { cat "${@:2}" | sha256sum | cut -d' ' -f1; }
changed() { [ ! -e "$programs/$1" ] || [ "$(cat "$programs/.$1.stamp" 2>/dev/null)" != "$(stamp "$@")" ]; }
built() { stamp "$@" > "$programs/.$1.stamp"; }

cd "$root/bootstrap/payload"

# runc: cgo for its namespace set-up (nsexec) and libseccomp; static, so that it runs on any host. Its own module and flags:
# its dependencies do not agree with Kubernetes'.
toolchain=$programs/.toolchain
{ go version; gcc --version | head -1; cat /usr/lib/*/pkgconfig/libseccomp.pc 2>/dev/null || true; } > "$toolchain"
if changed runc runc/go.mod runc/go.sum build.sh "$toolchain"; then
  (cd runc && CGO_ENABLED=1 GOFLAGS="-trimpath -buildvcs=false -tags=seccomp,netgo,osusergo,urfave_cli_no_docs" \
    $GO build -ldflags "$LD -linkmode external -extldflags -static" -o "$programs/runc" github.com/opencontainers/runc)
  built runc runc/go.mod runc/go.sum build.sh "$toolchain"
fi

# pause: a page of C, because one runs in every pod.
if changed pause pause/pause.c build.sh "$toolchain"; then
  gcc -Os -static -s -Wall -Werror -Wl,--build-id=none -o "$programs/pause" pause/pause.c
  built pause pause/pause.c build.sh "$toolchain"
fi

(cd cni && $GO build -ldflags "$LD -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v1.10.0" -o "$programs/" \
  github.com/containernetworking/plugins/plugins/{ipam/host-local,main/bridge,main/loopback,meta/portmap})

cd "$root"
$GO build -ldflags "$LD" -o "$programs/containerd-shim-runc-v2" ./bootstrap/payload/shim
$GO build -ldflags "$LD" -o "$programs/coredns" ./bootstrap/payload/coredns
for program in regiond-node regiond-init; do
  [ -d "cmd/$program" ] || { echo "payload: cmd/$program is missing; the checkout is not whole" >&2; exit 1; }
  $GO build -ldflags "$LD" -o "$programs/$program" "./cmd/$program"
done

$GO run ./bootstrap/payload/pack -programs "$programs" -out bootstrap/payload/files
