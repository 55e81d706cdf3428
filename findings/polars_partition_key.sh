#!/bin/sh
# polars 2.1.0, `frame.write_parquet(folder, partition_by="label")`, then the folder read by pyarrow
# 26.0.1 and pandas 3.1.1.
#
# Expected: the rows. Seen on 2026-11-27: polars leaves the column also inside of the files (pyarrow,
# pandas, duckdb and Spark take it out), as large_string, and both refuse the folder:
#
#   pyarrow.dataset   Unable to merge: Field label has incompatible types: large_string vs string
#   pandas            ... large_string vs dictionary<values=string, ...>
#
# duckdb 2.0.1 and polars read it. polars.PartitionBy(..., include_key=False) leaves the column out.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.dataset

folder, other = f"{sys.argv[1]}/a", f"{sys.argv[1]}/b"
frame = polars.DataFrame({"x": [1, 2], "label": ["cat", "dog"]})
frame.write_parquet(folder, partition_by="label")
frame.lazy().sink_parquet(polars.PartitionBy(other, key="label", include_key=False), mkdir=True)
readers = [
    lambda place: pyarrow.dataset.dataset(place, partitioning="hive").to_table(),
    pandas.read_parquet,
]
refused = []
for read in readers:
    try:
        print(read(folder))
    except pyarrow.ArrowTypeError as error:
        refused.append(str(error))
duck = duckdb.sql(f"SELECT x, label FROM '{folder}/*/*.parquet' ORDER BY x").fetchall()
without = [sorted(map(str, read(other)["label"].to_numpy())) for read in readers]
print("refused:", refused, "duckdb:", duck, "without the key:", without)
rows = [(1, "cat"), (2, "dog")]
sys.exit(len(refused) != 2 or duck != rows or without != [["cat", "dog"]] * 2)
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
"$work/env/bin/python" "$work/read.py" "$work"
