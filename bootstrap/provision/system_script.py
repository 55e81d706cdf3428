"""Makes the system changes of one host as root, with one POSIX sh script over SSH.

The script is system_changes.sh. This module writes the variables before it, from `Changes`
only, knows which failures of apt are temporary, and turns the script's output into errors.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..console.output import Reporter
from ..console.text import clean
from ..errors import RailheadError
from ..facts.host import HostFacts
from ..plan.drivers import REPOSITORY
from ..plan.system_changes import Changes
from ..ssh.as_root import as_root
from ..ssh.session import Session

SCRIPT = Path(__file__).parents[1] / "host/scripts/system_changes.sh"
SILENCE = 60  # seconds; the script prints @alive every five seconds

# Extended regular expressions for messages of apt and dpkg; grep and Python match them alike.
LOCKED = r"Could not get lock|Unable to (acquire|lock)|frontend lock was locked"
TRANSIENT = "|".join(
    (
        r"Temporary failure (in name )?resol|Could not resolve",
        r"Could not connect to",
        r"Connection (failed|timed out|reset|refused|closed|dropped)",
        r"(Unable|Cannot initiate) (to connect|the connection) to",
        r"Error reading from server",
        r"Undetermined Error|Data socket timed out|Network is unreachable",
        r"(429|500|502|503|504) +[A-Z][A-Za-z -]+",
        r"Hash Sum mismatch|File has unexpected size|Mirror sync in progress",
        r"\.deb +404 +Not Found",  # outdated package lists: a retry updates them
    )
)
FINAL = "|".join(
    (
        r"unmet dependencies|held broken packages|Unable to correct problems",
        r"returned an error code",
        r"No space left on device|don't have enough free space",
    )
)
COMPLAINT = re.compile(r"E: |dpkg: error|The following packages have unmet| *\S+ : (Pre)?Depends")
FAILED_FETCH = re.compile(r"(?:Err:\d+|Failed to fetch) (https?://\S+|file:\S+)(.*)")


@dataclass(frozen=True)
class Keyring:
    """The package with the key of NVIDIA's repository for one system: its URL and its sha256."""

    url: str
    sha256: str


# The sha256 values are those that Google's GPU driver installer pins.
KEYRINGS = {
    os: Keyring(f"{REPOSITORY}/{re.sub('[-.]', '', os)}/x86_64/cuda-keyring_1.1-1_all.deb", sha256)
    for os, sha256 in (
        ("debian-12", "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d"),
        ("ubuntu-22.04", "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df"),
        ("ubuntu-24.04", "d2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba"),
    )
}


@dataclass(frozen=True)
class RetryPolicy:
    """How long the script waits for other programs (s), its retries, and the pause between (s)."""

    wait_seconds: int = 600
    retries: int = 4
    pause: int = 5


def transient(output: str) -> bool:
    """Whether the output of apt shows a temporary failure, such as a timeout."""
    return bool(re.search(TRANSIENT, output)) and not re.search(FINAL, output)


def locked(output: str) -> bool:
    """Whether the output shows that another program holds a lock of apt or dpkg."""
    return bool(re.search(LOCKED, output))


def variables(
    changes: Changes, keyring: Keyring | None, policy: RetryPolicy, proxy: str = ""
) -> dict[str, str]:
    """The variables of system_changes.sh; a value is empty if that part has nothing to do."""
    driver = changes.driver
    hold = dict.fromkeys([*changes.hold, *(driver.hold if driver else ())])
    return {
        "FIRST_BOOT": "yes" if changes.wait_cloud_init else "",
        "MEND": "yes" if changes.mend_dpkg else "",
        "PACKAGES": " ".join(changes.packages),
        "KEYRING": keyring.url if keyring else "",
        "KEYRING_SHA256": keyring.sha256 if keyring else "",
        "PIN": (driver and driver.pin) or "",
        "DRIVER": " ".join(driver.packages) if driver else "",
        "INSTALLER": (driver and driver.installer) or "",
        "HOLD": " ".join(hold),
        "BLACKLIST": blacklist(tuple(hold)),
        "PROXY": proxy,
        "REBOOT": "yes" if changes.reboot else "",
        "LOCKED": LOCKED,
        "TRANSIENT": TRANSIENT,
        "FINAL": FINAL,
        "WAIT_SECONDS": str(policy.wait_seconds),
        "RETRIES": str(policy.retries),
        "PAUSE": str(policy.pause),
    }


def blacklist(hold: Sequence[str]) -> str:
    """apt settings that exclude the driver and the held packages from unattended upgrades. apt
    takes regular expressions; `hold` has patterns of dpkg-query."""
    patterns = (f"{name.replace('*', '.*')}$" for name in hold)
    names = dict.fromkeys(["nvidia-", "libnvidia-", "cuda-", *patterns])
    return "\n".join(f'Unattended-Upgrade::Package-Blacklist:: "{name}";' for name in names)


def script(
    changes: Changes,
    os: str,
    *,
    policy: RetryPolicy = RetryPolicy(),  # noqa: B008
    keyrings: Mapping[str, Keyring] = KEYRINGS,
    proxy: str = "",
) -> str:
    """The complete script for one host; its apt uses `proxy` if that is not empty. KeyError: NVIDIA
    has no repository for this system."""
    keyring = keyrings[os] if changes.driver and changes.driver.repository else None
    assigned = variables(changes, keyring, policy, proxy)
    assignments = "\n".join(f"{name}={shlex.quote(value)}" for name, value in assigned.items())
    return f"{assignments}\n{SCRIPT.read_text()}"


def run_system_script(
    session: Session,
    facts: HostFacts,
    changes: Changes,
    report: Reporter,
    *,
    policy: RetryPolicy = RetryPolicy(),  # noqa: B008
    keyrings: Mapping[str, Keyring] = KEYRINGS,
    proxy: str = "",
) -> None:
    """Make the system changes on a host; `report` gets the progress, `proxy` is for apt on a host
    without outbound access. RailheadError: the script failed or the connection broke; a second call
    continues."""
    result = _ScriptOutput(report, changes.reasons)
    text = script(changes, facts.os, policy=policy, keyrings=keyrings, proxy=proxy)
    session.sh(as_root(text), report=result.line, silence=SILENCE)
    if result.end != "@done":
        raise why(result.end, result.step, result.output, policy)


class _ScriptOutput:
    """The output of the script: its step, its last line, and the lines of its last command."""

    def __init__(self, report: Reporter, reasons: Mapping[str, str]) -> None:
        self.report, self.reasons = report, reasons
        self.step, self.end = "", ""
        self.output: list[str] = []

    def line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "@step":
            self.step = rest
            self.report(f"{rest}: {self.reasons.get(rest, 'begins')}")
        elif word in ("@done", "@failed"):
            self.end = line
        elif word == "@try":
            self.output.clear()
        elif word != "@alive" and line.strip(" |."):
            self.output.append(clean(line.removeprefix("| ")))
            if not self.output[-1].startswith("(Reading database"):
                self.report(f"{self.step}: {self.output[-1]}".removeprefix(": "))


def why(end: str, step: str, output: Sequence[str], policy: RetryPolicy) -> RailheadError:
    """The error for a script's last line `end` and the output of its last command."""
    failure = end.removeprefix("@failed ")
    minutes = policy.wait_seconds // 60
    if failure in ("apt", "mend", "keyring") and (error := _apt_error("\n".join(output), minutes)):
        return error
    texts = {
        "busy": f"an earlier bootstrap is still running there after {minutes} minutes",
        "cloud-init": "cloud-init failed, its log is /var/log/cloud-init-output.log",
        "cloud-init-late": f"cloud-init has not finished within {minutes} minutes",
        "mend": "half-installed packages could not be repaired",
        "keyring": "the key of NVIDIA's repository could not be downloaded, or is not the"
        " expected one",
        "installer": "the image's own installer of the driver failed",
        "module": "the driver is installed, but its kernel module does not load",
        "apt": f"{step}: apt failed",
    }
    text = texts.get(failure, "the system changes stopped without a message")
    of_apt = failure in ("apt", "mend")
    complaints = [line for line in output if of_apt and COMPLAINT.match(line)]
    return RailheadError("\n".join([text, *(complaints or output[-8:])]))


def _apt_error(output: str, minutes: int) -> RailheadError | None:
    """The error for a failure of apt whose cause its output names; None for any other failure."""
    if locked(output):
        holder = next(line for line in output.splitlines() if locked(line))
        return RailheadError(f"apt's lock has been held for more than {minutes} minutes: {holder}")
    if transient(output) and "Hash Sum" not in output and (fetch := FAILED_FETCH.search(output)):
        cause = next(line.strip() for line in output.splitlines() if transient(line))
        source = "this computer" if "This computer" in cause else "that host"
        return RailheadError(
            f"apt gets no packages from {mirror(fetch[1])}: {cause}",
            hint=f"run the same command again when the mirror answers from {source}",
        )
    if other := re.search(r"(https?://\S+) is not a mirror of this host", output):
        return RailheadError(
            f"apt is redirected to {other[1]}, which the host's lists did not name in the plan",
            hint="name it there, in place of the mirror that redirects to it; then the same command"
            " again",
        )
    return None


def mirror(address: str) -> str:
    """The mirror in the URL of a package list or of a package."""
    return re.sub(r"/(dists|pool|\.)/.*", "", address).rstrip("/")
