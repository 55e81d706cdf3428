"""Encoded images as pixels, by TensorFlow. Pillow first converts to PNG what TensorFlow would
decode wrongly or not at all, such as a BMP with a palette. Photos are turned as their EXIF
orientation says.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf

WEBP = hasattr(tf.io, "decode_webp")  # TensorFlow 2.21 has it, 2.18 does not
PILLOW = find_spec("PIL") is not None
ENDINGS = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".gif"),
    *((".webp",) if WEBP or PILLOW else ()),
    *((".tif", ".tiff") if PILLOW else ()),
)
JPEG, PNG, GIF, BMP, RIFF = b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"RIFF"
DEEP = ("I", "F")  # modes of Pillow with 32 bits: no rule says which number is white
UPRIGHT = 1
ORIENTATION = 0x0112  # the tag of EXIF
EXIF = b"Exif\0\0"


def decode(files: Any, size: int, *, turn: bool = True) -> Any:
    """Encoded images, string [batch], to float32 [batch, size, size, 3] in 0..1; `turn`: as their
    EXIF orientation says."""
    files, turns = tf.numpy_function(
        partial(_prepared, turn=turn), [files], (tf.string, tf.int32), stateful=False
    )
    files, turns = tf.reshape(files, [-1]), tf.reshape(turns, [-1])

    def decode_one(file_and_turn: Any) -> Any:
        image = _decoded(file_and_turn[0])
        image.set_shape([None, None, 3])
        image = tf.image.resize(image, [size, size], antialias=True) / 255.0
        return turned(image, file_and_turn[1])

    spec = tf.TensorSpec([size, size, 3], tf.float32)
    return tf.map_fn(decode_one, (files, turns), fn_output_signature=spec, parallel_iterations=16)


def turned(image: Any, orientation: Any) -> Any:
    """A square image [size, size, channels] as its EXIF orientation, 1 to 8, says."""
    mirrored = tf.reduce_any(tf.equal(orientation, [2, 4, 5, 7]))
    quarters = tf.gather([0, 0, 0, 2, 2, 1, 3, 3, 1], orientation)
    image = tf.cond(mirrored, lambda: image[:, ::-1], lambda: image)
    return tf.image.rot90(image, quarters)


def is_image(content: bytes) -> bool:
    """Whether some bytes begin like an image of a known format."""
    return content.startswith((JPEG, PNG, GIF, BMP, RIFF, b"II*\0", b"MM\0*"))


def image_fault(content: bytes) -> str:
    """Why an image cannot be decoded; empty if it can."""
    try:
        _decoded(as_tensorflow_reads(content))
    except (tf.errors.OpError, ValueError):
        return f"is not an image that can be read{_reason(content)}"
    return ""


def _reason(content: bytes) -> str:
    """Why no image could be read, as the end of a sentence; empty if that is not known."""
    if _is_deep(content):
        return ": its pixels have 32 bits, not 8 or 16"
    if PILLOW:
        return ""
    name = "WebP" if _is_webp(content) else "a BMP with a palette" if _has_palette(content) else ""
    return f": it is {name}, which needs Pillow here" if name else ""


def _prepared(files: Sequence[bytes], turn: bool) -> tuple[Any, Any]:
    """Images that TensorFlow decodes correctly, and their EXIF orientations."""
    images = np.array([as_tensorflow_reads(file) for file in files], object)
    return images, np.array([orientation(file) if turn else UPRIGHT for file in files], np.int32)


def as_tensorflow_reads(content: bytes) -> bytes:
    """The same image, or a PNG that Pillow makes; empty bytes if Pillow cannot read it either."""
    if content.startswith((JPEG, PNG, GIF)) or (WEBP and _is_webp(content)):
        return content
    if content.startswith(BMP) and not _has_palette(content):
        return content
    if not PILLOW:
        return b"" if _has_palette(content) else content
    from PIL import Image

    out = io.BytesIO()
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.mode in DEEP:
                return b""
            _of_8_bits(image).convert("RGB").save(out, "PNG", compress_level=1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return b""
    return out.getvalue()


def _of_8_bits(image: Any) -> Any:
    """An image with 16 bits per pixel, reduced to the upper 8, as TensorFlow reads such a PNG.
    `convert` of Pillow (13.0) makes all above 255 white instead."""
    if not image.mode.startswith("I;16"):
        return image
    from PIL import Image

    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def _is_deep(content: bytes) -> bool:
    """Whether the pixels of an image have 32 bits, as in TIFF files of measurements."""
    if not PILLOW:
        return False
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.mode in DEEP
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False


def _is_webp(content: bytes) -> bool:
    return content[:4] == RIFF and content[8:12] == b"WEBP"


def _has_palette(content: bytes) -> bool:
    """Whether a BMP has at most 8 bits per pixel: TensorFlow would read its palette indices as gray
    values."""
    return content.startswith(BMP) and 0 < int.from_bytes(content[28:30], "little") <= 8


def _decoded(file: Any) -> Any:
    """One encoded image as uint8 [height, width, 3]."""

    def other() -> Any:
        return tf.io.decode_image(file, channels=3, expand_animations=False)

    if not WEBP:
        return other()

    # decode_image refuses to make 3 channels of a WebP file with transparency.
    def webp() -> Any:
        image = tf.io.decode_webp(file)[..., :3]
        return tf.reshape(image, tf.concat([[-1], tf.shape(image)[-3:]], axis=0))[0]  # a frame

    return tf.cond(tf.strings.substr(file, 8, 4) == "WEBP", webp, other)


def orientation(content: bytes) -> int:
    """The EXIF orientation of a JPEG file, 1 to 8; UPRIGHT if it has none."""
    if not content.startswith(JPEG):
        return UPRIGHT
    try:
        return _tag_of(_exif_of(content))
    except (struct.error, IndexError):  # cut off, or damaged
        return UPRIGHT


def _exif_of(content: bytes) -> bytes:
    """The EXIF data before the pixels of a JPEG file; empty without any."""
    place = 2
    while content[place] == 0xFF and content[place + 1] != 0xDA:
        (length,) = struct.unpack_from(">H", content, place + 2)
        if content[place + 1] == 0xE1 and content.startswith(EXIF, place + 4):
            return content[place + 4 + len(EXIF) : place + 2 + length]
        place += 2 + length
    return b""


def _tag_of(exif: bytes) -> int:
    """The orientation in EXIF data."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return UPRIGHT
    (begin,) = struct.unpack_from(f"{order}I", exif, 4)
    (count,) = struct.unpack_from(f"{order}H", exif, begin)
    for entry in range(begin + 2, begin + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", exif, entry)
        if (tag, kind) == (ORIENTATION, 3):
            value: int = struct.unpack_from(f"{order}H", exif, entry + 8)[0]
            return value if 1 <= value <= 8 else UPRIGHT
    return UPRIGHT
