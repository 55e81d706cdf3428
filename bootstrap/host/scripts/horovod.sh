#!/bin/sh
# Build the Horovod wheel for the TensorFlow that is installed in ENV_DIR.
#
#     sh horovod.sh ENV_DIR OUT_DIR LOCK
#
# ENV_DIR  a virtual environment made from a runtime lock: it holds TensorFlow and pip
# OUT_DIR  where the wheel is put (made if need be)
# LOCK     locks/horovod.txt: the source distribution, by its hash
#
# Operations on the CPU, over MPI; horovod_compile.sh, beside this file, compiles them. Where ENV_DIR
# holds NCCL, as the runtimes for GPUs do, also on GPUs, over NCCL, with the toolkit of cuda.sh,
# which lies beside this file; its locks lie beside LOCK. It takes no GPU to build for one. Prints a
# line for each part that is compiled; the last line is the wheel's path. Exit 1 with the last lines
# of the log if the build fails, 2 if something that it needs is missing: then nothing was
# downloaded.
set -eu

say() { printf 'horovod: %s\n' "$*"; }

refuse() {
    printf 'horovod: %s\n' "$*" >&2
    exit 2
}

check_tools() {
    missing=
    for tool in g++ mpicxx; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    has_mpi_header || missing="$missing mpi.h"
    [ -z "$missing" ] || refuse "not found:$missing;" \
        "on Debian and Ubuntu: apt-get install -y g++ openmpi-bin libopenmpi-dev"
}

folder_of() {
    case $1 in
    */*) echo "${1%/*}" ;;
    *) echo . ;;
    esac
}

gpu() { [ -n "$nccl" ]; }

has_mpi_header() {
    for dir in $(mpicxx --showme:incdirs 2>/dev/null); do
        if [ -e "$dir/mpi.h" ]; then return 0; fi
    done
    return 1
}

check_environment() {
    [ -x "$python" ] || refuse "no Python at $python"
    "$python" -c 'import cloudpickle, packaging, psutil, setuptools, wheel, yaml' ||
        refuse "$env_dir was not made from a runtime lock: the line above names what it lacks"
    [ -r "$lock" ] || refuse "cannot read $lock"
}

# The largest compiler process was seen at 1.0 GB, so memory bounds the jobs as cores do.
jobs() {
    cores=$(nproc)
    room=$(awk '/^MemAvailable:/ { print int($2 / 1050000) }' /proc/meminfo)
    if [ "$room" -lt "$cores" ]; then cores=$room; fi
    if [ "$cores" -lt 1 ]; then cores=1; fi
    echo "$cores"
}

# HOROVOD_* of the caller's own must not change what is built under this lock.
choose_parts() {
    for name in $(env | sed -n 's/^\(HOROVOD_[A-Z_]*\)=.*/\1/p') CUDA_HOME NCCL; do
        unset "$name"
    done
    compile=$(cd "$here" && pwd)/horovod_compile.sh
    [ -x "$compile" ] || chmod +x "$compile"
    JOBS=$(jobs) PYTHON=$python
    export HOROVOD_CMAKE="$compile" JOBS PYTHON TMPDIR="$work"
}

choose_gpu_parts() {
    sh "$here/cuda.sh" "$env_dir" "$work/cuda" "$locks" || exit $?
    CUDA_HOME=$(readlink -f "$work/cuda") NCCL=$nccl
    export CUDA_HOME NCCL
    add_headers
}

# From 2.19 on, TensorFlow has a header of XLA in another folder, includes two that lie outside of
# its include path, and lacks two names, which Horovod's operations on GPUs use.
add_headers() {
    include=$(ls -d "$env_dir"/lib/python3.*/site-packages/tensorflow/include 2>/dev/null || :)
    client=tensorflow/compiler/xla/client
    [ -n "$include" ] && [ ! -e "$include/$client/xla_builder.h" ] || return 0
    mkdir -p "$work/headers/$client"
    cat >"$work/headers/$client/xla_builder.h" <<'END'
#pragma once
#include "tensorflow/compiler/xla/hlo/builder/xla_builder.h"
#include "absl/status/statusor.h"
#include "xla/stream_executor/stream.h"
namespace xla {
template <typename T> using StatusOr = absl::StatusOr<T>;
}
struct CUstream_st;
namespace stream_executor::gpu {
// mpi_ops.cc calls it; only xla_mpi_ops.cc includes this file, so it is defined once.
CUstream_st* AsGpuStreamValue(Stream* stream) {
  return static_cast<CUstream_st*>(stream->platform_specific_handle().stream);
}
}
END
    external=$include/external
    export CPLUS_INCLUDE_PATH="$work/headers:$external/highwayhash:$external/farmhash_archive/src"
}

# A cached wheel may have been built against another TensorFlow: hence --no-cache-dir.
build() {
    "$python" -m pip --disable-pip-version-check wheel -v --no-deps --no-build-isolation \
        --no-cache-dir --no-binary horovod --require-hashes -r "$lock" -w "$work/wheel" 2>&1
    echo $? >"$work/status"
}

# Not awk: Debian's reads a pipe in large blocks, so that the lines would come late.
progress() {
    tee "$work/log" | while read -r line; do
        case $line in "["*"%] "*) say "$line" ;; esac
    done
}

fail() {
    tail -n 30 "$work/log" >&2
    # Several compilers write at once: the first errors are far above pip's own last lines.
    grep -E -m 5 'error: |undefined reference' "$work/log" >&2 || :
    say "the build failed: $*; the first errors and the end of its log are above" >&2
    exit 1
}

[ $# -eq 3 ] || refuse "usage: sh horovod.sh ENV_DIR OUT_DIR LOCK"
env_dir=$1 out_dir=$2 lock=$3
case $env_dir in /*) ;; *) env_dir=$PWD/$env_dir ;; esac
python=$env_dir/bin/python
here=$(folder_of "$0") locks=$(folder_of "$lock")
check_tools
check_environment
nccl=$(ls -d "$env_dir"/lib/python3.*/site-packages/nvidia/nccl 2>/dev/null || :)
work=$(mktemp -d "${TMPDIR:-/tmp}/railhead-horovod.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
choose_parts
! gpu || choose_gpu_parts

say "building with $JOBS jobs: a minute or more, once for this system, Python and TensorFlow"
set +e
build | progress
set -e
[ "$(cat "$work/status" 2>/dev/null)" = 0 ] || fail "pip ended with $(cat "$work/status")"
wheel=$(ls "$work"/wheel/horovod-*.whl)
"$python" -m zipfile -l "$wheel" | grep 'horovod/tensorflow/mpi_lib' >/dev/null ||
    fail "the wheel has no TensorFlow library in it"
mkdir -p "$out_dir"
mv "$wheel" "$out_dir/"
echo "$out_dir/$(basename "$wheel")"
