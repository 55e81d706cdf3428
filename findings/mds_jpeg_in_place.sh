#!/bin/sh
# mosaicml-streaming 0.13.0, MDSWriter with the encoding "jpeg": a picture that was opened from a JPEG
# file and then changed in place, as by ImageDraw (a face or a name that is covered) or thumbnail().
#
# Expected: the reader returns the changed picture. Seen on 2026-11-27: the writer copies the FILE that
# the picture was opened from, and no word tells. So the covered part is in the data set, and pictures
# have their full size:
#
#              covered black, brightest pixel     thumbnail of 64
#   jpeg       200, as in the file                640 x 640
#   png, pil   0                                  64 x 64
#
# picture.copy() before the write, or an operation that makes a new picture (resize), avoids it.
# Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/write.py" <<'PY'
import sys

import numpy
from PIL import Image, ImageDraw
from streaming import MDSWriter, StreamingDataset

folder = sys.argv[1]
Image.fromarray(numpy.full((640, 640, 3), 200, "uint8")).save(f"{folder}/picture.jpg")


def opened():
    return Image.open(f"{folder}/picture.jpg")


def covered():
    picture = opened()
    ImageDraw.Draw(picture).rectangle((0, 0, 640, 640), fill=(0, 0, 0))
    return picture


def small():
    picture = opened()
    picture.thumbnail((64, 64))
    return picture


seen = {}
for encoding in ("jpeg", "png", "pil"):
    place = f"{folder}/{encoding}"
    with MDSWriter(out=place, columns={"x": encoding}) as writer:
        for picture in (covered(), small(), covered().copy(), small().copy()):
            writer.write({"x": picture})
    read = [one["x"] for one in StreamingDataset(local=place, batch_size=1, shuffle=False)]
    seen[encoding] = [
        (int(numpy.asarray(read[at]).max()), read[at + 1].size[0]) for at in (0, 2)
    ]
    print(encoding, "brightest pixel and width:", *seen[encoding])
right = [(0, 64), (0, 64)]
sys.exit(seen != {"jpeg": [(200, 640), (0, 64)], "png": right, "pil": right})
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
