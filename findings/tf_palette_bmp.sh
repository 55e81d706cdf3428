#!/bin/sh
# tensorflow-cpu 2.18.1 and 2.21.0, tf.io.decode_image of a BMP with a palette (8 bits per pixel,
# as scanners and paint programs write it).
#
# Expected: the colours of the palette, as for a PNG with one, or an error. Seen on 2026-11-27: the
# numbers of the palette's entries come as if they were grey values. channels=3 repeats each three
# times, so a picture with four colours is nearly black, and no error or warning tells.
#
#   palette red, green, blue, white   ->   [0 0 0] [1 1 1] [2 2 2] [3 3 3]
#
# Pillow reads the same file with its colours. Exits 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/decode.py" <<'PY'
import io
import struct
import sys

import tensorflow as tf
from PIL import Image

colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]
palette = b"".join(bytes([b, g, r, 0]) for r, g, b in colours) + bytes(4 * 252)
rows = bytes([2, 3, 0, 0]) + bytes([0, 1, 0, 0])  # the lower row first, each padded to 4 bytes
start = 14 + 40 + len(palette)
head = b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start)
head += struct.pack("<IiiHHIIiiII", 40, 2, 2, 1, 8, 0, len(rows), 0, 0, 256, 0)
bmp = head + palette + rows
pixels = tf.io.decode_image(bmp, channels=3).numpy().reshape(-1, 3).tolist()
picture = Image.open(io.BytesIO(bmp)).convert("RGB")
seen = [picture.getpixel((at % 2, at // 2)) for at in range(4)]
print(tf.__version__, pixels, "Pillow", seen)
sys.exit(pixels != [[n, n, n] for n in range(4)] or seen != colours)
PY
for version in 2.18.1 2.21.0; do
    python3 -m venv "$work/$version"
    "$work/$version/bin/pip" install --quiet "tensorflow-cpu==$version" pillow==12.0.0
    TF_CPP_MIN_LOG_LEVEL=3 "$work/$version/bin/python" "$work/decode.py" 2>/dev/null
done
