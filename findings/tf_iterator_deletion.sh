#!/bin/sh
# tensorflow-cpu 2.18.1 and 2.21.0: 60 iterators of a small data set, used for 9 s, then deleted.
#
# Expected: a deletion takes milliseconds. Seen on 2026-11-27: of 30, four took 2.2, 10.2, 20.5 and
# 40.9 s (2.18.1, two cores), the others 0.01 s. The iterator waits for the thread that tunes it;
# that thread sleeps again where it wakes up before the flag of the cancellation is set
# (cancellation.cc sets it after all callbacks), for the rest of a period that grows to 60 s.
# With options.autotune.enabled = False there is no such thread.
#
# Takes up to 5 minutes. Exits 1 if no deletion of a tuned iterator takes 1 s in four tries, or one
# of an untuned iterator does.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/delete.py" <<'PY'
import os
import time

import tensorflow as tf

kept = []


def longest_deletion(tuned, seconds=9):
    options = tf.data.Options()
    options.autotune.enabled = tuned
    data = tf.data.Dataset.range(1000).repeat().prefetch(2).with_options(options)
    iterators = [iter(data) for _ in range(60)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for iterator in iterators:
            next(iterator)
        time.sleep(0.05)
    longest = 0
    while iterators and longest < 1:  # the others are kept: each may take a minute
        start = time.monotonic()
        iterators.pop()
        longest = max(longest, time.monotonic() - start)
    kept.append(iterators)
    return longest


untuned = longest_deletion(tuned=False)
tuned = 0
for _ in range(4):
    tuned = max(tuned, longest_deletion(tuned=True))
    if tuned >= 1:
        break
print(f"TensorFlow {tf.__version__}: longest deletion {tuned:.1f} s, without tuning {untuned:.2f} s", flush=True)
os._exit(not tuned >= 1 > untuned)
PY
for version in 2.18.1 2.21.0; do
    python3 -m venv "$work/$version"
    "$work/$version/bin/pip" install --quiet "tensorflow-cpu==$version"
    TF_CPP_MIN_LOG_LEVEL=3 "$work/$version/bin/python" -W ignore "$work/delete.py" 2>/dev/null
    rm -rf "$work/$version"
done
