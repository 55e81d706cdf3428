"""Full disks: whether inodes are missing, and the reserve with which a run can still write its
result."""

from __future__ import annotations

import os

# For result.json, the manifest and state.json: bytes, and inodes.
BYTES = 65_536
FILES = 4


def lacks_inodes(folder: str) -> bool:
    """Whether the file system of a folder has inodes but no free one; False if unknown."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_files > 0 and state.f_favail == 0


def reserve(folder: str) -> None:
    """Reserve space and inodes for the run in this folder. OSError if there are not enough."""
    place = os.path.join(folder, "reserve")
    os.makedirs(place, exist_ok=True)
    for number in range(FILES):
        with open(os.path.join(place, str(number)), "wb") as file:
            file.write(os.urandom(BYTES // FILES))


def free_reserve(folder: str) -> None:
    """Free the reserve of the run in this folder."""
    import shutil  # loaded at the end of a run: every agent loads this module

    shutil.rmtree(os.path.join(folder, "reserve"), ignore_errors=True)
