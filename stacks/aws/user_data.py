"""The user data of a machine: its timer, and its host key if one is injected. Pure.

Any process on the machine can read it. cloud-init reads it as YAML; JSON is valid YAML.
"""

from __future__ import annotations

import json

from ..timer.deadline import install_script

HEAD = "#cloud-config\n"  # cloud-init requires this line
PUBLIC, PRIVATE = "ed25519_public", "ed25519_private"


def cloud_config(hours: float, idle_minutes: int, key: tuple[str, str] | None = None) -> str:
    """The user data of a machine: its deadline, the minutes without use after which it powers
    itself off, and its host key (public, private). `bootcmd` is the first thing that cloud-init
    runs, at each boot: whatever fails after it, the timer runs. cloud-init removes the image's host
    keys, and with `ssh_keys` generates no others."""
    values: dict[str, object] = {
        "ssh_deletekeys": True,
        "bootcmd": [["sh", "-c", install_script(hours, idle_minutes)]],
    }
    if key:
        values["ssh_keys"] = dict(zip((PUBLIC, PRIVATE), key, strict=True))
    return HEAD + json.dumps(values, indent=1) + "\n"


def injected_key(text: str | None) -> str | None:
    """The public key in a machine's user data: that of its creation, whatever the config is now.
    None if no key was injected."""
    try:
        return str(json.loads((text or "").removeprefix(HEAD))["ssh_keys"][PUBLIC])
    except (ValueError, KeyError, TypeError):
        return None
