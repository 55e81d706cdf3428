#!/bin/sh
# webdataset 1.0.2 with Pillow 13.0.0: a depth map or a scan with 16 bits per pixel (uint16), written
# by TarWriter as png and read by WebDataset.decode(...).
#
# Expected: the values, or their upper 8 bits, or an error. Seen on 2026-11-27: the file has all 16
# bits, and every decoder of pictures makes each value above 255 white (255), without a word:
#
#   100, 300, 51000   ->   100, 255, 255     pil, rgb8, l8;  rgb: 255 is 1.0
#
# The decoders call convert("RGB") of Pillow, which does not scale. A function of one's own for
# "png", or npy in place of png, keeps the values.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/read.py" <<'PY'
import io
import sys

import numpy
import PIL.Image
import webdataset

path = f"{sys.argv[1]}/samples.tar"
values = numpy.array([[100, 300, 51000]], numpy.uint16)
with webdataset.TarWriter(path) as writer:
    writer.write({"__key__": "0", "png": values})
data = webdataset.WebDataset(path, shardshuffle=False)
whole = numpy.asarray(PIL.Image.open(io.BytesIO(next(iter(data))["png"]))).tolist()
seen = {}
for decoder in ("pil", "rgb8", "rgb", "l8"):
    picture = numpy.asarray(next(iter(data.decode(decoder)))["png"])
    data = webdataset.WebDataset(path, shardshuffle=False)
    row = picture[0, :, 0] if picture.ndim == 3 else picture[0]
    seen[decoder] = (row * (255 if decoder == "rgb" else 1)).round().astype(int).tolist()
print("in the file", whole, "decoded", seen)
sys.exit(whole != values.tolist() or any(row != [100, 255, 255] for row in seen.values()))
PY
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet webdataset==1.0.2 pillow==13.0.0
"$work/env/bin/python" -W ignore "$work/read.py" "$work"
