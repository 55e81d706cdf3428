"""Other words that people search for: the search of the site finds a section by them, too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

# A word of a section's title, and what else people call it.
SYNONYMS: Mapping[str, str] = {
    "bootstrap": "prepare provision install driver",
    "cancel": "kill abort terminate",
    "checkpoints": "save restore snapshot",
    "cost": "price bill budget money",
    "costs": "price bill budget money",
    "deploy": "inference serve endpoint REST API",
    "evaluate": "test validate score",
    "exec": "command shell pssh",
    "extend": "autostop longer prolong",
    "fetch": "download copy artifacts",
    "health": "diagnose nvidia-smi check",
    "leaks": "orphan forgotten unused zombie",
    "logs": "tail stdout output",
    "metrics": "curve plot graph",
    "notebook": "jupyter jupyterlab",
    "packages": "pip requirements dependencies",
    "predict": "inference infer query",
    "prune": "clean garbage disk",
    "report": "chart compare graph",
    "runs": "jobs history experiments queue",
    "scale": "scaling speedup efficiency",
    "secrets": "password token credentials",
    "spot": "preemptible preempted interrupted reclaimed",
    "start": "boot wake",
    "status": "ps top show describe",
    "stop": "shutdown halt pause",
    "sweep": "tuning hyperparameter search optuna",
    "teardown": "destroy down remove delete",
    "trust": "known_hosts fingerprint",
    "tunnel": "port-forward forwarding",
    "up": "provision launch create apply",
}


def add_to(index: Path) -> None:
    """Add them to a search index, `search.json`: as the last step of a section's path, which its
    results show, and which counts as much as a title."""
    content = json.loads(index.read_text())
    for item in content["items"]:
        words = re.findall(r"\w+", item["title"].lower())
        if also := " ".join(SYNONYMS[word] for word in words if word in SYNONYMS):
            item["path"].append(also)
    index.write_text(json.dumps(content))
