#!/bin/sh
# pandas 3.1.1 with pyarrow 26.0.1: a table with a missing value in the column that parts it,
# `frame.to_parquet(folder, partition_cols=["label"])`, then `pandas.read_parquet(folder)`.
#
# Expected: the same three rows. Seen on 2026-11-27: pandas writes the folders label=cat and
# label=__HIVE_DEFAULT_PARTITION__ without a word, and cannot read them:
#
#   ArrowInvalid: Cannot yet unify dictionaries with nulls
#
# duckdb 2.0.1, polars 2.1.0 and pyarrow.dataset read the folder, with None. In pandas
# dtype_backend="pyarrow" does not help: the column becomes a dictionary before that.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import duckdb
import pandas
import polars
import pyarrow.dataset

folder = sys.argv[1]
frame = pandas.DataFrame({"x": [1, 2, 3], "label": ["cat", None, "cat"]})
frame.to_parquet(folder, partition_cols=["label"])
refused = []
for options in ({}, {"dtype_backend": "pyarrow"}):
    try:
        print(pandas.read_parquet(folder, **options))
    except Exception as error:
        refused.append(f"{type(error).__name__}: {error}")
duck = duckdb.sql(f"SELECT x, label FROM '{folder}/*/*.parquet' ORDER BY x").fetchall()
polar = polars.read_parquet(folder).sort("x").select("x", "label").rows()
arrow = pyarrow.dataset.dataset(folder, partitioning="hive").to_table().sort_by("x")
rows = [(1, "cat"), (2, None), (3, "cat")]
others = [duck == rows, polar == rows, arrow["label"].to_pylist() == ["cat", None, "cat"]]
print("pandas:", refused, "duckdb, polars, pyarrow.dataset:", others)
wrong = "ArrowInvalid: Cannot yet unify dictionaries with nulls"
sys.exit(refused != [wrong] * 2 or not all(others))
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
"$work/env/bin/python" "$work/read.py" "$work/data"
