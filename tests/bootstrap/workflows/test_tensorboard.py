"""TensorBoard's files are created from metrics.jsonl, and TensorBoard itself shows them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from places import CASES, ROOT
from standins.hostile import Host, member, packed

from bootstrap.cli import tasks
from bootstrap.cli.running import Exit
from bootstrap.console.wait import wait_until
from bootstrap.errors import RailheadError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.provision.local_environment import environment_folder, python_of
from bootstrap.runs import event_files, results
from bootstrap.runs.metrics.events import EVENT_FILE, event_file
from bootstrap.runs.run import Run
from bootstrap.untrusted.unpack import Hostile
from bootstrap.workflows import tensorboard
from railhead.documents.agent.packing import Sent
from railhead.documents.runs.run_record import RunRecord

READ = """
import json, sys
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
for event in EventFileLoader(sys.argv[1]).Load():
    for value in event.summary.value:
        print(json.dumps([value.tag, event.step, round(value.tensor.float_val[0], 4)]))
"""
RECORDS: list[dict[str, Any]] = [
    {"kind": "message", "text": "x"},
    {"kind": "progress", "epoch": 1, "step": 7, "steps": 9, "loss": 0.5, "rank": 0, "time": 1.0},
    {"kind": "progress", "epoch": 1, "step": 7, "steps": 9, "loss": 0.6, "rank": 1, "time": 1.0},
    {"kind": "epoch", "epoch": 1, "epochs": 2, "loss": 0.25, "host": "h1", "val_loss": "1e999"},
    {"kind": "metric", "name": "acc/é", "value": 0.5, "number": 300, "rank": 0},
    {"kind": "metric", "name": "large", "value": 1e300, "number": 1},
    {"kind": "metric", "name": "acc/é", "value": 0.75, "number": -1},
]


@pytest.fixture(scope="session")
def python(shared_caches: Path) -> Path:
    """The Python of TensorBoard's environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared_caches))
        return python_of("tensorboard")


def written(results: Path, records: list[dict[str, Any]]) -> Path:
    results.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record) for record in records]
    (results / "metrics.jsonl").write_text("\n".join([*lines, '{"torn']))
    return results


def scalars(python: Path, data: bytes | None, folder: Path) -> list[Any]:
    """What TensorBoard reads from an event file."""
    assert data is not None
    path = folder / "events.out.tfevents.1"
    path.write_bytes(data)
    process = subprocess.run([python, "-c", READ, path], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_tensorboard_reads_what_the_records_say(python: Path, tmp_path: Path) -> None:
    points = scalars(python, event_file(written(tmp_path / "r", RECORDS)), tmp_path)
    assert points[:2] == [["progress/loss", 7, 0.5], ["epoch/loss", 1, 0.25]]
    assert points[2] == ["acc/é", 300, 0.5] and len(points) == 3


def test_a_program_with_events_of_its_own_keeps_them(python: Path, tmp_path: Path) -> None:
    results = written(tmp_path / "r", RECORDS)
    (results / "tensorboard").mkdir()
    (results / "tensorboard/events.out.tfevents.1.h1").write_text("its own")
    assert [row[0] for row in scalars(python, event_file(results), tmp_path)] == ["acc/é"]


def test_there_is_no_file_where_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert event_file(tmp_path) is None
    assert event_file(written(tmp_path / "r", RECORDS[:1])) is None


@pytest.fixture
def bring(s3: Any, tmp_path: Path) -> Callable[[dict[str, str]], Run]:
    """Puts files below runs/r1/ in a bucket, and brings the events of that run here."""
    from bootstrap.clouds.aws.s3 import open_bucket
    from bootstrap.clouds.bucket import Bucket

    def work(texts: dict[str, str]) -> Run:
        for name, text in texts.items():
            s3.put_object(Bucket="results-b", Key=f"runs/r1/{name}", Body=text)
        run = Run("r1", tmp_path / "r1")
        event_files.bring_from_bucket(Bucket(open_bucket("results-b", "us-east-1")), run)
        return run

    return work


def test_pieces_in_the_bucket_become_the_files_they_were(
    bring: Callable[[dict[str, str]], Run],
) -> None:
    pieces = {
        "live/metrics.jsonl.000000000000": '{"kind": "metric", "na',
        "live/metrics.jsonl.000000000022": 'me": "x", "value": 1, "number": 1}\n',
        "live/tensorboard/events.out.tfevents.9.h1.000000000000": "events",
    }
    run = bring(pieces)
    line = json.loads((run.results / "metrics.jsonl").read_text())
    assert line == {"kind": "metric", "name": "x", "value": 1, "number": 1}
    assert (run.results / "tensorboard/events.out.tfevents.9.h1").read_text() == "events"
    assert (run.results / EVENT_FILE).exists()


def test_events_and_profiles_come_from_the_bucket_and_nothing_else(
    bring: Callable[[dict[str, str]], Run],
) -> None:
    wanted = {"tensorboard/events.out.tfevents.9.h1", "tensorboard/plugins/profile/t/h1.xplane.pb"}
    names = (*sorted(wanted), "model.keras")
    one = {"bytes": 1, "sha256": sha256(b"x").hexdigest()}
    entries = [{"path": f"results/{name}", **one} for name in names]
    manifest = json.dumps({"schema": 1, "files": entries, "skipped": []})
    run = bring({**dict.fromkeys(names, "x"), "manifest.json": manifest})
    files = (path for path in run.results.rglob("*") if path.is_file())
    assert {path.relative_to(run.results).as_posix() for path in files} == wanted


class Chief(Host):
    """A chief with these files, which notes the names that are requested."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(b"")
        self.files = files
        self.requested: list[list[str]] = []

    def sizes(self, root: str, patterns: Sequence[str]) -> tuple[tuple[str, int], ...]:
        return tuple((name, len(data)) for name, data in self.files.items())

    def get(self, root: str, patterns: Sequence[str], out: Path, *, limit: int) -> Sent:
        self.requested.append([*patterns])
        self.archive = packed([member(name, self.files[name]) for name in patterns])
        return super().get(root, patterns, out, limit=limit)


def test_only_the_files_that_have_grown_on_the_chief_are_fetched_again(tmp_path: Path) -> None:
    metrics, events = "results/metrics.jsonl", "work/logs/events.out.tfevents.9.h1"
    line = json.dumps(RECORDS[1]).encode() + b"\n"
    chief, run = Chief({metrics: line, events: b"first"}), Run("r1", tmp_path / "r1")
    followed = event_files.HostEvents(run)
    followed.bring(cast(Any, chief))
    followed.bring(cast(Any, chief))
    chief.files[events] += b" and second"
    followed.bring(cast(Any, chief))
    assert chief.requested == [[metrics, events], [events]]
    assert (run.results / "outputs/logs/events.out.tfevents.9.h1").read_text() == "first and second"
    assert (run.results / "metrics.jsonl").read_bytes() == line


def test_the_files_of_tensorboard_have_a_limit_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is larger than that of the results."""
    assert event_files.LIMIT > results.OUTPUT_LIMIT
    monkeypatch.setattr(results, "OUTPUT_LIMIT", 10)
    monkeypatch.setattr(event_files, "LIMIT", 1000)
    name, run = "work/events.out.tfevents.9.h1", Run("r1", tmp_path / "r1")
    event_files.HostEvents(run).bring(cast(Any, Chief({name: b"x" * 1000})))
    assert (run.results / "outputs/events.out.tfevents.9.h1").stat().st_size == 1000
    with pytest.raises(Hostile, match="more than 1000 bytes"):
        event_files.HostEvents(run).bring(cast(Any, Chief({name: b"x" * 1001})))


def recorded(results: Path) -> None:
    """A cluster with one run, whose results are here."""
    local_state.save_cluster(parse_hosts("192.0.2.9"))
    name = local_state.last_cluster().name
    local_state.save_run(RunRecord("r1", name, str(results)))


def started(home: Path, caches: Path) -> subprocess.Popen[str]:
    fab = Path(sys.executable).parent / "fab"
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(caches)}
    repo = ROOT
    return subprocess.Popen(
        [fab, "-r", repo, "tensorboard"], env=environment, text=True, stdout=subprocess.PIPE
    )


DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # without a proxy


def read(url: str) -> Any:
    """The JSON at an address of this machine."""
    with DIRECT.open(url, timeout=60) as answer:
        content = answer.read()
        zipped = answer.headers.get("Content-Encoding") == "gzip"
    return json.loads(gzip.decompress(content) if zipped else content)


def fetched(results: Path) -> None:
    """The results of a run that has ended, as `fab fetch` leaves them."""
    written(results, RECORDS)
    (results / "result.json").write_text('{"state": "succeeded"}')
    (results / EVENT_FILE).parent.mkdir(parents=True)
    (results / EVENT_FILE).write_bytes(event_file(results) or b"")
    recorded(results)


def check_curves(address: str) -> None:
    """TensorBoard has the curves of the run, and refuses the pages of other sites."""
    deadline = time.monotonic() + 60
    tags: dict[str, Any] = {}
    while not tags and time.monotonic() < deadline:  # it reads the files after it has started
        tags = read(f"{address}data/plugin/scalars/tags")
    assert set(tags["tensorboard/metrics"]) == {"progress/loss", "epoch/loss", "acc/é"}
    for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            DIRECT.open(urllib.request.Request(address, headers=header))
        assert refused.value.code == 403, "a page of another site gets no curves"
        refused.value.close()


def check_trace(address: str) -> None:
    """The page of the profiler has the trace of the run."""
    page = f"{address}data/plugin/profile"
    (run,) = read(f"{page}/runs")
    assert run == "tensorboard/2026_11_22"
    trace = read(f"{page}/data?run={run}&tag=trace_viewer@&host=h1")
    assert "_MklMatMul" in {event["name"] for event in trace["traceEvents"]}


@pytest.mark.parametrize(
    ("has_profile", "ending"), [(False, signal.SIGKILL), (True, signal.SIGINT)]
)
def test_it_shows_a_run_whose_hosts_are_gone_and_leaves_nothing(
    python: Path,
    home: Path,
    tmp_path: Path,
    shared_caches: Path,
    has_profile: bool,
    ending: signal.Signals,
) -> None:
    """The profile is TensorFlow's, of five products of matrices on a CPU."""
    results = tmp_path / "r1"
    if has_profile:
        profile = results / "tensorboard/plugins/profile/2026_11_22/h1.xplane.pb"
        profile.parent.mkdir(parents=True)
        shutil.copy(CASES / "profiles/matmul.xplane.pb", profile)
    fetched(results)
    process = started(home, shared_caches)
    try:
        assert process.stdout
        address = next(line for line in process.stdout if "http://" in line).split()[-1]
        check_curves(address)
        if has_profile:
            check_trace(address)
    finally:
        process.send_signal(ending)
        code = process.wait(60)
    assert code == (0 if ending == signal.SIGINT else -ending)
    assert wait_until(lambda: not answers(address), seconds=60, every=0.05), "it still runs"


def answers(address: str) -> bool:
    try:
        DIRECT.open(address, timeout=5).close()
    except OSError:
        return False
    return True


def test_the_rest_is_shown_where_the_page_of_the_profiler_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    environment_folder("tensorboard").mkdir(parents=True)  # it was made before
    (tmp_path / "h1.xplane.pb").touch()
    assert tensorboard._python(tmp_path) == environment_folder("tensorboard") / "bin/python"
    assert "the profile is not shown: the environment of profiler" in capsys.readouterr().out


def test_a_run_without_events_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "r1"
    results.mkdir()
    (results / "result.json").write_text('{"state": "succeeded"}')
    recorded(results)
    with pytest.raises(Exit, match="run r1 has no TensorBoard events and no metrics") as refused:
        tasks.tensorboard()
    assert refused.value.code == 2


@pytest.mark.parametrize("state", ["[]", '{"state": 1}', "no JSON"])
def test_a_state_that_no_run_has_is_hostile(tmp_path: Path, state: str) -> None:
    class Chief:
        def read(self, path: str, silence: float | None = None) -> str:
            return state

    class Connection:
        run, chief = Run("r1", tmp_path), Chief()

    following = tensorboard._Following(Connection())  # type: ignore[arg-type]
    with pytest.raises(Hostile):
        following.is_running()
    following.lost = True
    assert not following.is_running()


def test_a_file_of_the_manifest_that_is_not_in_the_bucket_is_named(
    bring: Callable[[dict[str, str]], Run],
) -> None:
    entry = {"path": "results/metrics.jsonl", "bytes": 3, "sha256": "0" * 64}
    manifest = json.dumps({"schema": 1, "files": [entry], "skipped": []})
    with pytest.raises(RailheadError, match="lists runs/r1/metrics.jsonl, which"):
        bring({"manifest.json": manifest})
