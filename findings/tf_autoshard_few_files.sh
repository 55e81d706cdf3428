#!/bin/sh
# tensorflow-cpu 2.18.1 and 2.21.0: one TFRecord file, two workers of tf.distribute, and the policy
# AUTO, the default: "attempts FILE-based sharding, falling back to DATA-based sharding".
#
# Expected from that sentence: each worker gets every second record. Seen on 2026-11-27: worker 0
# gets InvalidArgumentError ("not enough for the required 2 shards/workers"), and worker 1 no record
# and no error. The same of a file that is concatenated with others that would suffice.
#
# It applies the rewrite of tf.distribute by itself, for each worker. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import _AutoShardDataset

files = [f"{sys.argv[1]}/part{number}.tfrecord" for number in range(4)]
for path in files:
    with tf.io.TFRecordWriter(path) as writer:
        for record in range(3):
            writer.write(f"{record}".encode())


def seen(data, worker):
    try:
        return len(list(_AutoShardDataset(data, 2, worker)))
    except tf.errors.InvalidArgumentError:
        return "InvalidArgumentError"


one = tf.data.TFRecordDataset(files[:1])
joined = one.concatenate(tf.data.TFRecordDataset(files[1:]))
found = [[seen(data, worker) for worker in (0, 1)] for data in (one, joined)]
print(tf.__version__, "one file:", found[0], "one, then three:", found[1])
sys.exit(found != [["InvalidArgumentError", 0], ["InvalidArgumentError", 3]])
PY
for version in 2.18.1 2.21.0; do
    python3 -m venv "$work/$version"
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$work/$version/bin/python" "tensorflow-cpu==$version"
    else
        "$work/$version/bin/pip" install --quiet "tensorflow-cpu==$version"
    fi
    TF_CPP_MIN_LOG_LEVEL=3 "$work/$version/bin/python" "$work/read.py" "$work" 2>/dev/null
    rm -rf "${work:?}/$version"
done
