#!/bin/sh
# mosaicml-streaming 0.13.0: what MDSWriter and StreamingDataset make of valid values.
#
# Expected: the values come back, or the writer refuses them. Seen on 2026-11-27, without a word:
#
#   "pil"       a picture with a palette (GIF, PNG-8): the palette is lost, and red, green and blue
#               are all black in RGB (Pillow 13.0.0); "png" keeps them
#   "ndarray"   an array of big-endian numbers (as of IDX files, FITS): 0, 1, 2 come as 0, 16777216,
#               33554432
#   "int8"      3.7 comes as 3;  "float16": 70000 comes as inf
#
# 300 in "uint8" is refused, and so is numpy.int64(3) in "int" (not run here).
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/write.py" <<'PY'
import sys

import numpy
from PIL import Image
from streaming import MDSWriter, StreamingDataset


def back(encoding, value):
    place = f"{sys.argv[1]}/{encoding}"
    with MDSWriter(out=place, columns={"x": encoding}) as writer:
        writer.write({"x": value})
    return StreamingDataset(local=place, batch_size=1, shuffle=False)[0]["x"]


colours = [255, 0, 0, 0, 255, 0, 0, 0, 255]
picture = Image.frombytes("P", (3, 1), bytes([0, 1, 2]))
picture.putpalette(colours)
seen = {
    encoding: numpy.asarray(back(encoding, picture).convert("RGB")).ravel().tolist()
    for encoding in ("pil", "png")
}
seen["ndarray"] = back("ndarray", numpy.arange(3, dtype=">i4")).tolist()
seen["int8"], seen["float16"] = int(back("int8", 3.7)), float(back("float16", 70000.0))
print(seen)
wanted = {"pil": [0] * 9, "png": colours, "ndarray": [0, 16777216, 33554432]}
sys.exit(seen != {**wanted, "int8": 3, "float16": float("inf")})
PY
python3.11 -m venv "$work/env"
packages="mosaicml-streaming==0.13.0 torch==2.10.0 torchvision==0.25.0 transformers==4.57.6"
packages="$packages pillow==13.0.0"
if command -v uv > /dev/null; then
    # shellcheck disable=SC2086
    uv pip install --quiet --python "$work/env/bin/python" $packages
else
    # shellcheck disable=SC2086
    "$work/env/bin/pip" install --quiet $packages
fi
"$work/env/bin/python" -W ignore "$work/write.py" "$work"
