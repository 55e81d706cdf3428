"""A stack on the real engine, as a person would type it: no account, no prompts, no downloads."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from places import ROOT
from standins import vault
from standins.forks import FAB, FAB_OF_A_STACK, forks, run_fab

BIN = Path(__file__).parent / "bin"  # the stand-in for the language host
ENDED = ("resOutputsEvent", "resOpFailedEvent")
DEFAULT_PROVIDER = ("pulumi:providers:pulumi-python", "default")
KEPT = TemporaryDirectory(prefix="railhead-stacks-")
BESIDE = ("pulumi-resource-pulumi-python", "pulumi-language-python-exec")


def find(caches: Path) -> Path | None:
    """The folder with the CLI and its scripts: on PATH, else built by scripts/engine; or None."""
    found = shutil.which("pulumi")
    folders = [Path(found).resolve().parent] if found else []
    built = subprocess.run(
        [ROOT / "scripts/engine", "--where"],
        env={**os.environ, "XDG_CACHE_HOME": str(caches)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    folders.append(Path(built.stdout.strip()))
    whole = [f for f in folders if all((f / name).exists() for name in ("pulumi", *BESIDE))]
    return whole[0] if whole else None


def required() -> Path:
    """The same for campaigns and benchmarks, which end without it."""
    from bootstrap.inventory import caches

    if cli := find(caches.cache("engine").parents[1]):
        return cli
    raise SystemExit("there is no Pulumi CLI; to build it: scripts/engine")


@dataclass(frozen=True)
class Step:
    """What the engine did, or would do, to one resource."""

    op: str  # create, update, delete, replace, create-replacement, refresh, ...
    type: str
    name: str
    diff: tuple[str, ...]  # the properties for which it does it


@dataclass(frozen=True)
class Done:
    """How a command ended, what it printed, and the engine's own events."""

    code: int
    text: str
    seconds: float
    events: tuple[dict[str, Any], ...] = ()

    def ended(self, code: int, *args: str) -> Done:
        """Assert the exit code, and that each of the words was printed."""
        assert self.code == code, f"exit {self.code}, expected {code}:\n{self.text}"
        for word in args:
            assert word in self.text, f"{word!r} was not printed:\n{self.text}"
        return self

    @property
    def steps(self) -> list[Step]:
        """Every change, in the engine's order, failed ones too; what stays the same is left out.

        So is the provider of dynamic resources: the engine takes it for changed when any of the
        settings changed.
        """
        lines = [e[kind]["metadata"] for e in self.events for kind in ENDED if kind in e]
        # A component's event comes again with its outputs.
        steps = dict.fromkeys(_step(m) for m in lines if m["op"] not in ("same", "refresh"))
        return [s for s in steps if (s.type, s.name) != DEFAULT_PROVIDER]

    @property
    def changed(self) -> dict[str, str]:
        """{name: op} of the changes, for stacks in which no two resources share a name."""
        return {step.name: step.op for step in self.steps}

    @property
    def summary(self) -> dict[str, int]:
        """{op: how many}, as the engine counts at the end; `same` is among them."""
        counts = [e["summaryEvent"]["resourceChanges"] for e in self.events if "summaryEvent" in e]
        return counts[-1] if counts else {}

    @property
    def problems(self) -> list[str]:
        """The errors that were reported, without colours."""
        lines = [e["diagnosticEvent"] for e in self.events if "diagnosticEvent" in e]
        texts = [each["message"] for each in lines if each["severity"] == "error"]
        return [re.sub(r"<\{%.*?%\}>", "", text).strip() for text in texts]


def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
    target.mkdir(exist_ok=True)
    for name in names:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, target / name)


def _step(metadata: Mapping[str, Any]) -> Step:
    *_, kinds, name = metadata["urn"].split("::")
    diff = metadata.get("diffs") or ()
    return Step(metadata["op"], kinds.split("$")[-1], name, tuple(sorted(diff)))


def _is_whole(path: Path) -> bool:
    """Whether a file of the state is JSON to its end, or gone by now."""
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    except FileNotFoundError:
        pass
    return True


class Stack:
    """One stack of this repository's project, or of `program`, with its state below `folder`.

    `providers` are stand-ins that listen already: {"aws": PORT}. Resources of a provider that
    is neither among them nor part of Python end in an error: nothing is downloaded.
    """

    def __init__(
        self,
        engine: Path,
        folder: Path,
        name: str = "test",
        *,
        providers: Mapping[str, int] | None = None,
        program: str | None = None,
    ) -> None:
        self.engine, self.folder, self.name = engine, folder, name
        self.providers = dict(providers or {})
        self.env: dict[str, str] = {}  # more of the environment, as the test needs it
        self._make_project(program)
        self._init()

    def _init(self) -> None:
        """`pulumi stack init`; what it writes is kept for the next stack of this name."""
        kept, files = Path(KEPT.name, self.name), ("state", f"Pulumi.{self.name}.yaml")
        if not kept.exists():
            (self.folder / "state").mkdir()
            self.run("stack", "init", self.name, "--secrets-provider", vault.PROVIDER).ended(0)
            _copy(self.folder, kept, files)
        else:
            _copy(kept, self.folder, files)

    def _make_project(self, program: str | None) -> None:
        """The repository's Pulumi.yaml and stacks/; settings are written here, not there."""
        (self.folder / "pulumi").mkdir(parents=True)
        (self.folder / "pulumi/logs").touch()  # not a folder: the engine writes no debug log
        (self.folder / "Pulumi.yaml").symlink_to(ROOT / "Pulumi.yaml")
        if program is None:
            # As links: what `fab` takes for its clone is the folder, with the settings in it.
            for part in ("stacks", "bootstrap", "training", "locks", "fabfile.py"):
                (self.folder / part).symlink_to(ROOT / part)
        else:
            (self.folder / "stacks").mkdir()
            (self.folder / "stacks" / "__main__.py").write_text(program)

    def lose_state(self) -> None:
        """The state and the config are gone, and the stack is initialized again: as after `pulumi
        stack rm --force` and `pulumi stack init`."""
        shutil.rmtree(self.folder / "state")
        _copy(Path(KEPT.name, self.name), self.folder, ("state", f"Pulumi.{self.name}.yaml"))

    def config(self, **values: object) -> Stack:
        """Set these settings; None removes one. In the stack's file, as `pulumi config set` writes
        them (test_engine.py): the command takes a quarter of a second each time."""
        path = self.folder / f"Pulumi.{self.name}.yaml"
        settings = yaml.safe_load(path.read_text()) if path.exists() else {}
        for key, value in values.items():
            name = key if ":" in key else f"railhead:{key}"
            settings.setdefault("config", {})[name] = _text(value)
            if value is None:
                del settings["config"][name]
        path.write_text(json.dumps(settings))  # which is YAML, with its texts in quotes
        return self

    def preview(self, *args: str) -> Done:
        """`pulumi preview`."""
        return self._operate("preview", *args)

    def up(self, *args: str) -> Done:
        """`pulumi up --yes`, without the preview before it."""
        return self._operate("up", "--yes", "--skip-preview", *args)

    def refresh(self, *args: str) -> Done:
        """`pulumi refresh --yes`, without the preview before it."""
        return self._operate("refresh", "--yes", "--skip-preview", *args)

    def destroy(self, *args: str) -> Done:
        """`pulumi destroy --yes`, without the preview before it."""
        return self._operate("destroy", "--yes", "--skip-preview", *args)

    def output(self) -> dict[str, Any]:
        """What `pulumi stack output --json` prints."""
        by_type = {one["type"]: one.get("outputs") or {} for one in self.resources()}
        outputs: dict[str, Any] = by_type["pulumi:pulumi:Stack"]
        return outputs

    def resources(self) -> list[dict[str, Any]]:
        """The resources of the state, the stack itself and providers included; `pulumi stack
        export` reads the same file."""
        (path,) = (self.folder / "state/.pulumi/stacks").rglob(f"{self.name}.json")
        latest = json.loads(path.read_text())["checkpoint"].get("latest") or {}
        resources: list[dict[str, Any]] = latest.get("resources") or []
        return resources

    def kill_between_writes(self, pid: int) -> None:
        """SIGKILL of Pulumi while each file of the state is whole: a file that it was writing would
        have to be removed by hand (test_engine.py)."""
        for _ in range(1000):
            os.kill(pid, signal.SIGSTOP)
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.001)
            if all(map(_is_whole, (self.folder / "state").rglob("*.json*"))):
                break
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """The processes that have this stack's state in their environment."""
        mark = f"PULUMI_BACKEND_URL=file://{self.folder / 'state'}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
        return found

    def end_processes(self) -> None:
        """A killed engine leaves its program running."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _operate(self, verb: str, *args: str) -> Done:
        log = self.folder / "events.jsonl"
        log.unlink(missing_ok=True)
        done = self.run(verb, "--stack", self.name, "--event-log", str(log), *args)
        lines = log.read_text().splitlines() if log.exists() else []
        return Done(done.code, done.text, done.seconds, tuple(map(json.loads, lines)))

    def run(self, *args: str, seconds: float = 200) -> Done:
        """`pulumi words` in the project; what it printed on stdout, then on stderr."""
        begun = time.monotonic()
        process = self.start("pulumi", "--non-interactive", "--color=never", *args)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            raise AssertionError(f"{args} took more than {seconds} s:\n{out}{err}") from None
        return Done(process.returncode, out + err, time.monotonic() - begun)

    def start(self, program: str, *args: str) -> subprocess.Popen[str]:
        """Start `pulumi` or `fab` in the project, with its output in pipes. SIGKILL of `fab` is
        SIGKILL of the real process: it is never a fork."""
        return subprocess.Popen(
            [str({"pulumi": self.engine / "pulumi", "fab": FAB}[program]), *args],
            cwd=self.folder,
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fab(self, *args: str, seconds: float = 300) -> Done:
        """`fab words` in the project, in a home of its own."""
        begun, variables = time.monotonic(), {**os.environ, **self.environment()}
        process = run_fab(self.folder, args, variables, seconds, program=FAB_OF_A_STACK)
        text = process.stdout + process.stderr
        return Done(process.returncode, text, time.monotonic() - begun)

    def environment(self) -> dict[str, str]:
        """No account, no update check, no downloads; this Python, and this repository's code."""
        first = [str(BIN), str(self.engine), str(Path(sys.executable).parent)]
        return {
            "PATH": os.pathsep.join([*first, os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT)]),
            "PULUMI_HOME": str(self.folder / "pulumi"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "of a test",  # of stacks that a test initializes itself
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "RAILHEAD_ADDRESS_SERVICE": "",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # without it there is no --event-log
            "PULUMI_DEBUG_PROVIDERS": ",".join(f"{n}:{p}" for n, p in self.providers.items()),
            "GOGC": "400",  # the engine's state is small, and collecting garbage takes seconds
            "RAILHEAD_FORKS": forks(),
            **vault.environment(),
            **self.env,
        }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
