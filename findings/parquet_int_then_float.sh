#!/bin/sh
# Two Parquet files that pandas 3.1.1 wrote: a column is whole in the first (int64), so 2.5 and 3.5
# in the second make it double. Read together by duckdb 2.0.1, pyarrow 26.0.1, polars 2.1.0.
#
# Expected: 1, 2, 2.5, 3.5, or an error. Seen on 2026-11-27: pyarrow and polars refuse; duckdb takes
# the type of the first file, rounds, and says nothing:
#
#   SELECT x FROM 'FOLDER/*.parquet'      ->   1, 2, 2, 4
#
# union_by_name=true gives 1, 2, 2.5, 3.5. In the other order of the files all three are right.
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
import pyarrow.parquet

folder = sys.argv[1]
pandas.DataFrame({"x": [1, 2]}).to_parquet(f"{folder}/0.parquet")
pandas.DataFrame({"x": [2.5, 3.5]}).to_parquet(f"{folder}/1.parquet")
files = f"'{folder}/*.parquet'"


def rows(query):
    return sorted(row[0] for row in duckdb.sql(query).fetchall())


plain = rows(f"SELECT x FROM {files}")
united = rows(f"SELECT x FROM read_parquet({files}, union_by_name=true)")
refused = []
for read, error in (
    (pyarrow.parquet.read_table, pyarrow.ArrowInvalid),
    (polars.read_parquet, polars.exceptions.SchemaError),
):
    try:
        print(read(folder))
    except error as raised:
        refused.append(type(raised).__name__)
print("duckdb", plain, "by name", united, "the others", refused)
sys.exit(plain != [1, 2, 2, 4] or united != [1, 2, 2.5, 3.5] or len(refused) < 2)
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
mkdir "$work/data"
"$work/env/bin/python" "$work/read.py" "$work/data"
