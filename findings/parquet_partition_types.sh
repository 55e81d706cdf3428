#!/bin/sh
# Folders label=VALUE of Parquet files, as pyarrow, Spark and Hive write them: the type of the column
# `label`, read by pyarrow 26.0.1, pandas 3.1.1, polars 2.1.0 and duckdb 2.0.1.
#
# Expected: the same values everywhere. Seen on 2026-11-27:
#
#   folders               pyarrow            polars         duckdb             pandas
#   01, 1                 1, 1               1, 1           '01', '1'          ValueError
#   3, 12345678901        '3', '123...'      3, 123...      3, 123...          as pyarrow
#   true, false           'true', 'false'    True, False    'true', 'false'    as pyarrow
#   2024-01-31            '2024-01-31'       a date         a date             as pyarrow
#
# pyarrow knows int32 and text only: one id above 2,147,483,647 makes all of them texts, so what was
# a number in January is a text in February. Two labels that differ by a zero in front are one class
# to pyarrow and polars; pandas: "Categorical categories must be unique".
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import datetime
import os
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet


def read(*labels):
    folder = os.path.join(sys.argv[1], "-".join(labels))
    for x, label in enumerate(labels):
        os.makedirs(f"{folder}/label={label}")
        pyarrow.parquet.write_table(pyarrow.table({"x": [x]}), f"{folder}/label={label}/0.parquet")
    arrow = pyarrow.dataset.dataset(folder, partitioning="hive").to_table().sort_by("x")
    polar = polars.read_parquet(folder).sort("x")
    duck = duckdb.sql(f"SELECT label FROM '{folder}/*/*.parquet' ORDER BY x").fetchall()
    try:
        panda = list(pandas.read_parquet(folder).sort_values("x")["label"])
    except ValueError as error:
        panda = f"{type(error).__name__}: {error}"
    return [arrow["label"].to_pylist(), polar["label"].to_list(), [row[0] for row in duck], panda]


day = datetime.date(2024, 1, 31)
wanted = {
    ("01", "1"): [[1, 1], [1, 1], ["01", "1"], "ValueError: Categorical categories must be unique"],
    ("3", "12345678901"): [["3", "12345678901"], [3, 12345678901]] * 2,
    ("true", "false"): [["true", "false"], [True, False], ["true", "false"], ["true", "false"]],
    ("2024-01-31",): [["2024-01-31"], [day], [day], ["2024-01-31"]],
}
wanted[("3", "12345678901")] = [wanted[("3", "12345678901")][at] for at in (0, 1, 1, 0)]
seen = {labels: read(*labels) for labels in wanted}
for labels, values in seen.items():
    print(*labels, "->", *values)
sys.exit(seen != wanted)
PY
python3.11 -m venv "$work/env"
"$work/env/bin/pip" install --quiet duckdb==2.0.1 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
"$work/env/bin/python" "$work/read.py" "$work"
