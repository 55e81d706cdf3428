"""The text of faulthandler as frames. Pure; what a rank wrote is hostile: it may be anything."""

from __future__ import annotations

import re
from typing import NamedTuple

FRAME = re.compile(r'^  File "(?P<file>.{1,1000})", line (?P<line>\d{1,9}) in (?P<name>.{1,300})$')
THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")
MOST_FRAMES, MOST_THREADS = 200, 200


class Frame(NamedTuple):
    """A line of a stack."""

    file: str
    line: int
    name: str


Stack = tuple[Frame, ...]  # the innermost frame first


def parsed(text: str) -> list[Stack]:
    """The stacks of all threads, the main thread first; threads without frames are left out,
    except the main thread. Empty if there is no stack.

    faulthandler lists the newest thread first, so the main thread is the last one.
    """
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if THREAD.match(line):
            threads.append([])
        elif (frame := FRAME.match(line)) and threads and len(threads[-1]) < MOST_FRAMES:
            threads[-1].append(Frame(frame["file"], int(frame["line"]), frame["name"]))
    if not threads:
        return []
    *others, main = [tuple(frames) for frames in threads]
    return [main, *filter(None, reversed(others))][:MOST_THREADS]
