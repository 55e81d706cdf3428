#!/bin/sh
# Find a CUDA 12 toolkit on this host that compiles for V100, T4, A100 and later, or make one.
#
#     sh cuda.sh ENV_DIR HOME LOCKS
#
# ENV_DIR  a virtual environment with pip
# HOME     what is made: a link to the host's own toolkit, or a folder that is laid out like one
# LOCKS    the folder that has cuda-headers.txt and cuda-parts.txt
#
# The host's own toolkit is taken when it makes a program for all these GPUs with the host's own
# g++. Else nvcc comes out of Debian's package, which is unpacked and not installed, on any system,
# and headers and libraries out of NVIDIA's wheels: about 120 MB, all by hash. The package is in the
# archive that DEBIAN_MIRROR names; without it in one of apt's sources, or in Debian's own archive.
# No GPU and no driver is needed. Exit 1 if something could not be fetched, 2 if something is
# missing: then nothing was downloaded.
set -eu

package=pool/non-free/n/nvidia-cuda-toolkit/nvidia-cuda-toolkit_12.4.131~12.4.1-2_amd64.deb
sha256=cd5fe85aee38d108b315f408a688641478f2402622a10c677478eb7a6c4e5319
debian=http://deb.debian.org/debian
helper=${RAILHEAD_APT_HELPER:-/usr/lib/apt/apt-helper}
sources=${RAILHEAD_APT_SOURCES:-/etc/apt}

say() { printf 'cuda: %s\n' "$*"; }

# stop CODE MESSAGE
stop() {
    printf 'cuda: %s\n' "$2" >&2
    exit "$1"
}

# Whether an nvcc makes a program for every GPU that we promise: NVIDIA's own CUDA 13 does not,
# and some do not go together with the host's g++.
makes_programs() {
    printf '#include <cuda_runtime.h>\n__global__ void k(float *x) { *x = 1; }\n%s\n' \
        'int main() { k<<<1, 1>>>(0); return cudaDeviceSynchronize(); }' >"$work/try.cu"
    "$1" -gencode arch=compute_70,code=sm_70 -gencode arch=compute_75,code=sm_75 \
        -gencode arch=compute_80,code=sm_80 -o "$work/try" "$work/try.cu" >"$work/log" 2>&1
}

own_toolkit() {
    for nvcc in "$(command -v nvcc || :)" /usr/local/cuda/bin/nvcc /usr/local/cuda-12*/bin/nvcc; do
        [ -x "$nvcc" ] || continue
        nvcc=$(readlink -f "$nvcc")
        # Those of a system's own packages are strewn over it, where cmake does not look.
        [ -e "${nvcc%/bin/nvcc}/include/cuda_runtime.h" ] || continue
        if makes_programs "$nvcc"; then
            echo "${nvcc%/bin/nvcc}"
            return
        fi
    done
}

# Archives of Debian: the named one, else those that this host's apt uses, and the public one.
archives() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        echo "${DEBIAN_MIRROR%/}"
        return
    fi
    cat "$sources"/sources.list "$sources"/sources.list.d/* "$sources"/mirrors/* 2>/dev/null |
        sed -n '/^ *#/d;s|.*\(https\{0,1\}://[^ ]*/debian\)/\{0,1\}\( .*\)\{0,1\}$|\1|p'
    echo "$debian"
}

fetch() {
    say "no CUDA 12 toolkit of this host's own: fetching about 120 MB"
    tried=
    for archive in $(archives); do
        [ ! -e "$work/nvcc.deb" ] || break
        tried="$tried $archive"
        "$helper" -q -o APT::Sandbox::User=root download-file \
            "$archive/$package" "$work/part.deb" "SHA256:$sha256" >>"$work/log" 2>&1 || continue
        mv "$work/part.deb" "$work/nvcc.deb"
    done
    [ -e "$work/nvcc.deb" ] || {
        tail -n 5 "$work/log" >&2
        stop 1 "nvcc could not be fetched from$tried; apt's words are above. Set DEBIAN_MIRROR to \
an archive of Debian that this host reaches, or install NVIDIA's cuda-nvcc-12-9 and \
cuda-cudart-dev-12-9"
    }
    dpkg -x "$work/nvcc.deb" "$work/nvcc"
    wheels headers
    wheels parts
}

wheels() {
    "$env_dir/bin/python" -m pip --disable-pip-version-check install -q --no-deps \
        --require-hashes --target "$work/$1" -r "$locks/cuda-$1.txt" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log" >&2
        stop 1 "the wheels of cuda-$1.txt could not be fetched; pip's words are above"
    }
}

# Laid out as NVIDIA does it. libcudadevrt.a is empty: nothing of ours needs what is in it, and a
# newer one is refused by nvlink. FindCUDAToolkit of cmake insists on libcudart.so.
lay_out() {
    from=$work/nvcc/usr/lib/nvidia-cuda-toolkit
    mkdir -p "$home/bin" "$home/nvvm/bin" "$home/nvvm/libdevice" "$home/include" "$home/lib64"
    cp -r "$from/bin/nvcc" "$from/bin/crt" "$home/bin/"
    cp "$from/bin/cicc" "$home/nvvm/bin/"
    cp "$from"/libdevice/* "$home/nvvm/libdevice/"
    for tool in cudafe++ fatbinary ptxas nvlink bin2c cuobjdump; do
        cp "$work/nvcc/usr/bin/$tool" "$home/bin/"
    done
    for folder in "$work"/headers/nvidia/*/include; do cp -r "$folder/." "$home/include/"; done
    cp -r "$work/parts/nvidia/cuda_cccl/include/nv" "$home/include/"
    cp "$work/parts/nvidia/cuda_runtime/lib/libcudart_static.a" "$home/lib64/"
    ar crs "$home/lib64/libcudadevrt.a"
    cp "$work/headers/nvidia/cuda_runtime/lib/libcudart.so.12" "$home/lib64/"
    ln -sf libcudart.so.12 "$home/lib64/libcudart.so"
    # shellcheck disable=SC2016 # nvcc fills these in
    printf '%s\n' 'TOP = $(_HERE_)/..' 'NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice' \
        'PATH += $(TOP)/nvvm/bin:$(_HERE_):' 'INCLUDES += "-I$(TOP)/include" $(_SPACE_)' \
        'LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"' 'CUDAFE_FLAGS +=' 'PTXAS_FLAGS +=' \
        >"$home/bin/nvcc.profile"
}

[ $# -eq 3 ] || stop 2 "usage: sh cuda.sh ENV_DIR HOME LOCKS"
env_dir=$1 home=$2 locks=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/railhead-cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

own=$(own_toolkit)
if [ -n "$own" ]; then
    say "this host's own toolkit: $own"
    ln -sfn "$own" "$home"
    exit
fi
[ -x "$helper" ] || stop 2 "no CUDA 12 toolkit here, and no $helper to fetch one with"
fetch
lay_out
makes_programs "$home/bin/nvcc" || {
    tail -n 20 "$work/log" >&2
    stop 1 "the toolkit that was made does not compile; its words are above"
}
say "nvcc 12.4 was unpacked"
