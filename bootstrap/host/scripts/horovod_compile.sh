#!/bin/sh
# Compile Horovod's library for TensorFlow. Horovod's setup.py starts this in place of cmake.
#
#     horovod_compile.sh SOURCE -DCMAKE_LIBRARY_OUTPUT_DIRECTORY_...=OUT ...    compiles
#     horovod_compile.sh --build ...                                            nothing is left
#
# Operations on the CPU over MPI and, where CUDA_HOME is set, on GPUs over NCCL. The files are
# compiled as a few large ones, without debug information: with Horovod's CMakeLists each reads
# TensorFlow's headers again, and Gloo is compiled twice, which no rank that mpirun starts loads.
#
# PYTHON     of the environment that has TensorFlow
# JOBS       how many compilers run at the same time
# CUDA_HOME  a toolkit of cuda.sh; with NCCL, the folder of NVIDIA's wheel
set -eu

# The parts that are compiled on their own: their files.
files_of() {
    case $1 in
    core)
        echo common/common.cc common/controller.cc common/fusion_buffer_manager.cc \
            common/group_table.cc common/half.cc common/logging.cc common/message.cc \
            common/operations.cc common/parameter_manager.cc common/process_set.cc \
            common/response_cache.cc common/stall_inspector.cc common/tensor_queue.cc \
            common/thread_pool.cc common/timeline.cc common/utils/env_parser.cc \
            common/mpi/mpi_context.cc common/mpi/mpi_controller.cc \
            common/ops/collective_operations.cc common/ops/operation_manager.cc \
            common/ops/mpi_operations.cc common/ops/adasum/adasum_mpi.cc \
            common/ops/adasum_mpi_operations.cc
        ;;
    tuning) echo common/optim/bayesian_optimization.cc common/optim/gaussian_process.cc ;;
    tensorflow) echo tensorflow/mpi_ops.cc ;;
    xla) echo tensorflow/xla_mpi_ops.cc ;; # empty without a GPU
    gpu)
        echo common/ops/cuda_operations.cc common/ops/gpu_operations.cc \
            common/ops/mpi_gpu_operations.cc common/ops/nccl_operations.cc \
            common/ops/adasum_gpu_operations.cc
        ;;
    esac
}

parts() {
    echo core tensorflow tuning
    [ -z "${CUDA_HOME:-}" ] || echo gpu xla kernels
}

# One a line, quoted: the compiler reads them as @options.
options() {
    {
        printf '%s\n' -std=c++17 -O2 -ftree-vectorize -fPIC -pthread -w -DNDEBUG \
            -DEIGEN_MPL2_ONLY=1 -DHAVE_MPI=1 -DOMPI_SKIP_MPICXX=1 \
            "-DTENSORFLOW_VERSION=$version_number"
        # As Horovod's own build: what the processor has.
        for flag in avx f16c fma; do ! grep -qw "$flag" /proc/cpuinfo || echo "-m$flag"; done
        for library in HTTPRequest lbfgs flatbuffers boost/assert boost/config boost/core \
            boost/detail boost/iterator boost/lockfree boost/mpl boost/parameter boost/predef \
            boost/preprocessor boost/static_assert boost/type_traits boost/utility; do
            echo "-I$source/third_party/$library/include"
        done
        [ -z "${CUDA_HOME:-}" ] || options_of_gpu
        cat tensorflow.options
    } | sed 's/["\\]/\\&/g; s/.*/"&"/'
}

options_of_gpu() {
    printf '%s\n' -DHAVE_CUDA=1 -DHAVE_GPU=1 -DHAVE_NCCL=1
    for operation in ALLREDUCE ALLGATHER BROADCAST ALLTOALL REDUCESCATTER; do
        echo "-DHOROVOD_GPU_$operation=78" # the letter N, for NCCL
    done
    printf '%s\n' -isystem "$CUDA_HOME/include" -isystem "$NCCL/include"
}

# Ask TensorFlow for its version, also as a number, its folder and the ending of a library; and for
# its options, to tensorflow.options.
ask() {
    TF_CPP_MIN_LOG_LEVEL=3 "$PYTHON" -c '
import pathlib
import sysconfig
import tensorflow as tf
flags = [flag for flag in tf.sysconfig.get_compile_flags() if "std=" not in flag]
lines = [line for f in flags for line in (["-isystem", f[2:]] if f.startswith("-I") else [f])]
pathlib.Path("tensorflow.options").write_text("\n".join(lines) + "\n")
numbers = [int(part) for part in tf.__version__.split("-")[0].split(".")[:3]]
print(tf.__version__)
print(sum(number * 1000 ** (3 - place) for place, number in enumerate(numbers)))
print(tf.sysconfig.get_lib())
print(sysconfig.get_config_var("EXT_SUFFIX"))
'
}

# compile PART: one of `parts`, to PART.o in this folder.
compile() {
    part=$1
    if [ "$part" = kernels ]; then
        # For V100, T4 and A100; later ones translate the last.
        "$CUDA_HOME/bin/nvcc" -O3 -std=c++17 -DHAVE_CUDA=1 -DHAVE_GPU=1 -Xcompiler -fPIC \
            -gencode arch=compute_70,code=sm_70 -gencode arch=compute_75,code=sm_75 \
            -gencode 'arch=compute_80,code=[sm_80,compute_80]' -c "$source/horovod/common/ops/cuda/cuda_kernels.cu" -o "$part.o"
    else
        for file in $(files_of "$part"); do
            echo "#include \"$source/horovod/$file\""
        done >"$part.cc"
        mpicxx @compile.options -c "$part.cc" -o "$part.o"
    fi
    touch "$part.done"
    done=$(find . -maxdepth 1 -name '*.done' | wc -l)
    echo "[$((done * 100 / $(parts | wc -w)))%] compiled $part"
}

# What is loaded together with TensorFlow finds TensorFlow's names, and its CUDA runtime, there. NCCL
# is found beside it, in any environment: TensorFlow does not load it first.
link() {
    # shellcheck disable=SC2016 # the loader fills it in
    [ -z "${CUDA_HOME:-}" ] || set -- "$NCCL/lib/libnccl.so.2" \
        '-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib'
    objects=$(for part in $(parts); do echo "$part.o"; done)
    # shellcheck disable=SC2086 # objects are words
    mpicxx -shared -pthread -Wl,--as-needed "-Wl,--version-script=$source/horovod.lds" \
        -Wl,-Bsymbolic-functions -Wl,-z,relro,-z,now $objects "$@" \
        "-L$tf_folder" -l:libtensorflow_framework.so.2 \
        -l:libtensorflow_cc.so.2 -o "$out/horovod/tensorflow/mpi_lib$suffix"
}

case $1 in
--build) exit ;;
--part)
    source=$2
    trap '[ $? = 0 ] || exit 255' EXIT # xargs starts no other
    compile "$3"
    exit
    ;;
esac

source=$1
for option; do
    case $option in -DCMAKE_LIBRARY_OUTPUT_DIRECTORY_*=*) out=${option#*=} ;; esac
done
ask >tensorflow.txt
{
    read -r version
    read -r version_number
    read -r tf_folder
    read -r suffix
} <tensorflow.txt
options >compile.options
mkdir -p "$out/horovod/tensorflow"
echo "[0%] compiling $(parts | paste -s -d ' ')"
# shellcheck disable=SC2046 # parts are words
printf '%s\n' $(parts) | xargs -P "$JOBS" -n 1 sh "$0" --part "$source"
link
# Horovod compares this with the TensorFlow that it is imported into.
printf '{"tensorflow": "%s"}\n' "$version" >"$out/horovod/metadata.json"
