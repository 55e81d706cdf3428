"""The hosts for pyinfra, with the same key and the same pins as ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

JOB = json.loads(Path(os.environ["FANOUT_JOB"]).read_text())
hosts = [
    (
        target["name"],
        {
            "ssh_hostname": target["address"],
            "ssh_port": target["port"],
            "ssh_user": target["user"],
            "ssh_key": JOB["key_file"],
            "ssh_known_hosts_file": JOB["known_hosts"],
            "ssh_strict_host_key_checking": "yes",
            "ssh_config_file": os.devnull,
            "place": target["home"] + "/pyinfra",
            "config": target["config"],
        },
    )
    for target in JOB["targets"]
]
