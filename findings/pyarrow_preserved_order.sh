#!/bin/sh
# pyarrow 26.0.1, pyarrow.dataset.write_dataset(..., preserve_order=True) with max_rows_per_file, then
# pyarrow.parquet.read_table of the folder.
#
# Expected: the rows come back in their order; that is what the argument is for. Seen on 2026-11-27:
# the files are part-0, part-1, ... part-24 without leading zeros, and the readers (pyarrow, pandas,
# polars) sort them as text, so the rows of part-10 follow those of part-1. With 10 files or fewer the
# order is right. basename_template takes no format for the number.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

starts = {}
for rows in (1000, 2500):
    folder = f"{sys.argv[1]}/{rows}"
    pyarrow.dataset.write_dataset(
        pyarrow.table({"row": list(range(rows))}),
        folder,
        format="parquet",
        max_rows_per_file=100,
        max_rows_per_group=100,
        preserve_order=True,
    )
    read = [
        pyarrow.parquet.read_table(folder)["row"].to_pylist(),
        pandas.read_parquet(folder)["row"].tolist(),
        polars.read_parquet(folder)["row"].to_list(),
    ]
    assert read[0] == read[1] == read[2]
    starts[rows] = read[0][::100][:4]
print("the first row of each hundred:", starts)
sys.exit(starts != {1000: [0, 100, 200, 300], 2500: [0, 100, 1000, 1100]})
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
"$work/env/bin/python" "$work/read.py" "$work"
