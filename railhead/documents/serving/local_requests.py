"""Which requests come from a program of this computer, not from a web page of another site.

A browser sends requests of any page to 127.0.0.1. Two headers distinguish them: `Host` is the name
in the address, which a page's own name server can resolve to 127.0.0.1, and `Origin` is the page.
Standard library only, Python 3.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable

FORBIDDEN = 403
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
Header = Callable[[str], str | None]  # name -> value of a request


def refusal(header: Header) -> str:
    """Why a request is refused; "" for one of this computer."""
    host, origin = header("host") or "", header("origin")
    if not _LOCAL.fullmatch(host):
        return f"the header Host must be 127.0.0.1, localhost or [::1], not {host[:100]!r}"
    if origin is not None and origin.lower() != f"http://{host}".lower():
        return f"a page of another site ({origin[:100]!r}) sends no requests here"
    if header("sec-fetch-site") == "cross-site" and header("sec-fetch-mode") != "navigate":
        return "a page of another site sends no requests here"
    return ""
