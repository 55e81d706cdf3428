#!/bin/sh
# tensorflow-cpu 2.18.1 and 2.21.0: what tf.distribute makes of a data set on two workers, where the
# policy is AUTO, the default. 100 records in four TFRecord files.
#
# Expected: take(20) and skip(20) part the data as in one process: 20 for validation, 80 for training.
# Seen on 2026-11-27: the files are divided first, and each worker takes or skips 20 of its own:
#
#   take(20)   40 records on two workers   (20 in one process)
#   skip(20)   60 records                  (80 in one process)
#   skip(60)   none, without an error      (40 in one process)
#
# So what validates depends on the number of workers: a run continued on another number trains on
# records that validated before. With the policy DATA, or of data in memory, they are 20 and 80.
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
for number, path in enumerate(files):
    with tf.io.TFRecordWriter(path) as writer:
        for record in range(25):
            writer.write(f"{25 * number + record}".encode())


def seen(data, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    shards = [_AutoShardDataset(data.with_options(options), 2, worker) for worker in (0, 1)]
    return len({record.numpy() for shard in shards for record in shard})


data, memory = tf.data.TFRecordDataset(files), tf.data.Dataset.range(100)
policy = tf.data.experimental.AutoShardPolicy
counts = {
    "files": [seen(each, policy.AUTO) for each in (data.take(20), data.skip(20), data.skip(60))],
    "DATA": [seen(each, policy.DATA) for each in (data.take(20), data.skip(20), data.skip(60))],
    "memory": [seen(each, policy.AUTO) for each in (memory.take(20), memory.skip(20))],
}
print(tf.__version__, counts)
sys.exit(counts != {"files": [40, 60, 0], "DATA": [20, 80, 40], "memory": [20, 80]})
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
