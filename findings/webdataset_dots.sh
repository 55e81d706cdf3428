#!/bin/sh
# webdataset 1.0.2, four samples whose keys have a dot, as names of photos and recordings have:
# img.000 to img.003, each with a class and a text.
#
# Expected: four samples, or an error of the writer. Seen on 2026-11-27: TarWriter writes them
# without a word; WebDataset ends the key at the first dot of the name, so it reads ONE sample, img,
# with the fields 000.cls, 000.txt, ... 003.txt. With a dot in a folder (v1.0/000) all is right.
#
# Also: of a class that is True or 3.7 the writer makes a file that decode() cannot read.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import sys

import webdataset

path = f"{sys.argv[1]}/samples.tar"


def back(samples, decode=False):
    with webdataset.TarWriter(path) as writer:
        for sample in samples:
            writer.write(sample)
    data = webdataset.WebDataset(path, shardshuffle=False)
    read = list(data.decode() if decode else data)
    return [{key: value for key, value in each.items() if key[:2] != "__"} for each in read]


def numbered(key):
    return [{"__key__": key % n, "cls": n, "txt": f"text {n}"} for n in range(4)]


dots, folder = back(numbered("img.%03d")), back(numbered("v1.0/%03d"))
refused = []
for value in (True, 3.7):
    try:
        back([{"__key__": "0", "cls": value}], decode=True)
    except Exception as error:
        refused.append(type(error).__name__)
print(len(dots), "sample:", sorted(dots[0]), "in a folder", len(folder), refused)
sys.exit(len(dots) != 1 or len(dots[0]) != 8 or len(folder) != 4 or refused != ["DecodingError"] * 2)
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet webdataset==1.0.2
"$work/env/bin/python" -W ignore "$work/read.py" "$work"
