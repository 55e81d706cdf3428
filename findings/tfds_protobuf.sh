#!/bin/sh
# tensorflow-datasets 4.9.10 installed by pip beside tensorflow-cpu 2.18.1.
#
# Expected: pip (or uv) refuses, or chooses versions that fit. Seen on 2026-11-27: neither finds a
# conflict, nor does `pip check`. They install protobuf 5.29.6 (TensorFlow 2.18 needs less than 6) and
# tensorflow-metadata 1.21.0, which declares protobuf>=4.25.2, but whose files need 6.31.1. The import
# prints a traceback and SUCCEEDS, with an empty module; its first use is an AttributeError.
# tensorflow-metadata<1.18 beside it mends it.
#
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3.11 -m venv "$work/env"
python=$work/env/bin/python
install() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$python" "$@"
    else
        "$python" -m pip install --quiet "$@"
    fi
}
install tensorflow-cpu==2.18.1 tensorflow-datasets==4.9.10 tensorflow-metadata==1.21.0
"$python" -m pip check
export CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3
"$python" -c 'import tensorflow_datasets; print("imported"); tensorflow_datasets.core' \
    >"$work/out" 2>"$work/error" && exit 1
cat "$work/out"
tail -n 1 "$work/error"
grep -q imported "$work/out" && grep -q 'VersionError: Detected incompatible' "$work/error"
tail -n 1 "$work/error" | grep -q AttributeError
install 'tensorflow-metadata<1.18'
"$python" -c 'import tensorflow_datasets; print(tensorflow_datasets.core.GeneratorBasedBuilder)' 2>/dev/null
