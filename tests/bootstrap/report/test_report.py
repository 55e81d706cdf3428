"""The report of runs: its content, and that text of a host neither runs nor loads anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from standins.options import program
from standins.runs.run_documents import RUN, run_document
from standins.runs.run_documents import record_run as save_run

from bootstrap.console.charts.axes import ticks
from bootstrap.console.markup import element, text
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.report import listing
from bootstrap.report.command import command
from bootstrap.report.compare import best_of, differing, metric_for, sentence, short_names
from bootstrap.report.facts import RunFacts, better, read_run
from bootstrap.report.html import table
from bootstrap.report.page import evaluation as evaluation_markup
from bootstrap.report.timeline import events_of, spans_of
from bootstrap.report.write import composed, read_runs, report
from bootstrap.runs.request import record_of
from railhead.documents.cluster import ClusterPrice
from railhead.documents.codec import decode, encode
from railhead.documents.runs.evaluation import Evaluation
from railhead.documents.runs.manifest import home_name
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import BuiltIn, RunDocument, Script
from railhead.documents.runs.run_record import RunRecord
from railhead.money import host

if TYPE_CHECKING:
    from standins.stores.buckets import OnGcs

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8"
    "ffff3f0005fe02fedccc59e70000000049454e44ae426082"
)
FIRST, SECOND = "20261122-100000-0001", "20261122-110000-0002"
RESULT = home_name("results/result.json")  # as upload.py names it in a bucket


def record_run(run_id: str = FIRST, *, accuracy: float = 0.9, name: str = "3", **more: Any) -> Path:
    """A run with results in ./results; `name` is the name of a class, `more` are settings."""
    folder = Path.cwd() / "results" / run_id
    (folder / "worst").mkdir(parents=True)
    settings = {"model": "cnn", "data": "digits", "learning_rate": 0.001, **more}
    hosts = tuple(replace(RUN.hosts[0], name=name) for name in ("h1", "h2"))
    document = run_document(
        run_id=run_id, created="2026-11-22T10:00:00Z", size=2, hosts=hosts,
        program=BuiltIn("training", settings), bundle="ab12",
    )  # fmt: skip
    save_run(folder, document, record_of(program(preset="digits")))
    result = {"state": "succeeded", "seconds": 60.0, "started": "2026-11-22T10:00:05Z"}
    result |= {"ended": "2026-11-22T10:01:05Z", "size": 2, "evaluation": {"accuracy": accuracy}}
    worst = [{"picture": "worst/1.png", "label": name, "prediction": "8", "loss": 4.0}]
    evaluation = {"accuracy": accuracy, "loss": 0.3, "samples": 4, "split": "test", "worst": worst}
    evaluation |= {"classes": [name, "8"], "confusion": [[1, 1], [0, 2]], "worst_of": 4}
    classes = {"class": name, "samples": 2, "precision": 1.0, "recall": 0.5, "f1": None}
    evaluation |= {"per_class": [classes], "model": "feed", "data": "beef", "passed": True}
    records = [
        {"kind": "epoch", "epoch": e, "epochs": 3, "loss": 1 / e, "accuracy": 0.3 * e,
         "val_loss": 0.9 / e, "val_accuracy": accuracy * e / 3, "samples_per_s": 100.0 * e,
         "learning_rate": 0.001, "step_s": 0.1, "input_s": 0.02, "time": 1795341600.0 + e}
        for e in (1, 2, 3)
    ]  # fmt: skip
    times = {"step_s": 0.1, "input_s": 0.02, "samples_per_s": 321.0}
    records += [{"kind": "progress", "rank": 0, "host": name, **times}]
    records += [{"kind": "checkpoint", "step": 9, "time": 1795341610.0}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "worst/1.png").write_bytes(PNG)
    contents = {"result": result, "evaluation": evaluation, "run": encode(document)}
    for file, content in contents.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return folder


def change(file: Path, **values: Any) -> None:
    """Replace values of a JSON document."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page_of(*runs: str) -> str:
    """The page, without its charts as files."""
    return composed(read_runs(runs)).html


def written(*runs: str) -> str:
    """The page as `fab report` writes it."""
    return report(runs, None, None, Path.cwd() / "results").read_text()


CARBON = {
    "method": "railhead 1", "gpu_kwh": 0.5, "other_kwh": 0.25, "seconds": 120.0, "machines": 2,
    "grid": {"g_per_kwh": 400, "pue": 1.1, "place": "X", "year": 2025, "source": "<b>S</b>"},
    "notes": ["the energy of the GPUs of <i>h2</i> is not known"],
}  # fmt: skip


def test_the_page_has_the_carbon_measured_and_estimated(project: Path) -> None:
    folder = record_run()
    assert "Energy and carbon" not in written(FIRST)
    change(folder / "result.json", carbon=CARBON)
    html = written(FIRST)
    assert "300 gCO2e: measured 200 (GPUs), estimated 100 (CPUs, memory)" in html
    assert "railhead 1" in html and "GPUs of &lt;i&gt;h2" in html and "<b>S" not in html


def test_the_page_of_a_run_has_everything(project: Path) -> None:
    folder = record_run()
    html = written(FIRST)
    for shown in (
        "90.00 %", "Curves", "held out", "Throughput", "Timeline", "checkpoint at step 9",
        "Confusion matrix", "data:image/png;base64,", "Environment", "Digests", "feed", "beef",
        "fab train --preset digits", "1 min", "waiting for input",
    ):  # fmt: skip
        assert shown in html, shown
    assert {path.name for path in folder.glob("report-*.svg")} >= {
        "report-loss.svg", "report-accuracy.svg",
    }  # fmt: skip
    assert ElementTree.parse(folder / "report-loss.svg").getroot().tag.endswith("svg")


def test_what_the_user_chose_and_where_it_ran_are_in_the_page() -> None:
    folder = record_run(momentum=0.9)
    document = json.loads((folder / "run.json").read_text())
    runtime = {"name": "tf2.18-gpu", "digest": "d1", "python": "3.11"}
    hosts = [{**host, "gpus": ["Tesla T4"] * 2} for host in document["hosts"]]
    changed = decode(
        RunDocument, {**document, "runtime": runtime, "hosts": hosts, "commit": "abc1-dirty"}
    )
    save_run(folder, changed, record_of(program(preset="digits", settings=("learning_rate=1e-3",))))
    assert read_run(FIRST).chosen == {"preset": "digits", "learning_rate": "0.001"}
    html = page_of(FIRST)
    chosen, others = html.index(">learning_rate<"), html.index("All other settings")
    assert chosen < others < html.index(">momentum<")
    for shown in ("TensorFlow 2.18.1", "3.11", "2 hosts with 2 x Tesla T4", "abc1-dirty"):
        assert f">{shown}<" in html, shown


@pytest.mark.parametrize(("rank", "process"), [(None, "mpirun"), (0, "rank 0"), (1, "rank 1")])
def test_the_page_has_the_cause_of_a_failure_and_of_each_attempt(
    rank: int | None, process: str
) -> None:
    folder = record_run()
    culprit = {"rank": rank, "host": "h2", "lines": ["KeyError: 17"], "exit": 1}
    cause = {"class": "program", "evidence": "KeyError: 17", "host": "h2", "rank": rank}
    first = {"keras": 3, "culprit": {**culprit, "rank": None, "lines": []}, "seconds": 61.0}
    first |= {"kind": "retry", "cause": {"class": "host", "evidence": "lost", "host": "h2"}}
    first |= {"step": 7, "from_step": 5, "lost": 12.0}
    failed = {"state": "failed", "culprit": culprit, "cause": cause, "attempts": [first]}
    change(folder / "result.json", **failed)
    html = page_of(FIRST)
    assert f"<p>{process} on h2; program: KeyError: 17" in html
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html.partition("Attempts")[2])
    assert cells[:7] == ["1", "host: lost", "h2", "1 min 1 s", "7", "5", "12 s"]


def test_the_timeline_is_a_picture_of_what_took_time() -> None:
    record_run()
    local_state.change_run(FIRST, stops={"h1": "2026-11-22 10:02:05 UTC"})
    begin = 1795341600.0  # 2026-11-22T10:00:00Z
    spans = {span.row: (span.begin, span.end) for span in spans_of(read_run(FIRST))}
    assert spans == {
        "start": (0.0, 5.0),
        "epochs": (2.0, 3.0),  # the last of them
        "checkpoints": (1795341610.0 - begin, None),
        "end": (5.0, 65.0),
        "machines": (65.0, 125.0),
    }


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null/a", "\0", "x" * 5000, "file"])
def test_a_report_into_a_folder_that_cannot_be_is_refused(project: Path, folder: str) -> None:
    record_run()
    (project / "file").touch()
    before = {*project.rglob("*")}
    with pytest.raises(UsageError):
        report([FIRST], folder, None, Path.cwd() / "results")
    assert {*project.rglob("*")} == before


def test_a_report_into_a_new_folder_makes_it(project: Path) -> None:
    record_run()
    page = report([FIRST], "a/b", None, Path.cwd() / "results")
    assert page == project / "a/b/report.html" and page.exists()


def test_the_page_has_the_samples_of_each_rank_and_when_its_machines_stopped() -> None:
    folder = record_run()
    assert "160.5" in page_of(FIRST), "321 samples/s over 2 ranks"
    assert "stopped, as" not in page_of(FIRST)
    stopped = "2026-11-22 10:02:05 UTC"
    local_state.change_run(
        FIRST, stops={"h1": stopped, "h2": stopped, "h3": "2026-11-22 10:02:09 UTC"}
    )
    last = [event for _, event in events_of(read_run(FIRST))][-2:]
    assert last == [f"stopped, as the cloud reports: {hosts}" for hosts in ("h1, h2", "h3")]
    assert "stopped, as the cloud reports: h1, h2" in page_of(FIRST)
    local_state.change_run(FIRST, stops={"h1": "<b>soon"})
    assert "soon" not in page_of(FIRST) and folder.exists()


def test_the_cost_is_shown_where_the_price_is_known() -> None:
    parts = host.read(ClusterPrice(3.0, "USD", "list", "2026-07"), 1)
    result = Result(state="succeeded", seconds=1800)
    facts = RunFacts("r", Path(), "c", run_document(), result=result, parts=parts)
    assert str(facts.cost) == f"{1.5 * len(facts.hosts):.2f} USD"
    assert replace(facts, parts=()).cost is None
    assert replace(facts, result=Result(state="succeeded", seconds=1e308)).cost is None


def test_a_run_on_a_part_of_the_hosts_costs_a_part_of_the_price() -> None:
    price = ClusterPrice(8.0, "USD", "list", "2026-07")
    inventory = replace(parse_hosts("h1,h2,h3,h4"), name="c", price=price)
    local_state.save_cluster(inventory)
    save_run(Path("results").absolute() / FIRST, run_document(run_id=FIRST))
    facts = read_run(FIRST)
    assert len(facts.hosts) == 1 and facts.price and facts.price.exact == 2


def test_a_run_without_results_names_the_next_command() -> None:
    local_state.save_run(RunRecord(FIRST, "c", str(Path("results").absolute() / FIRST)))
    with pytest.raises(UsageError, match="has no results here") as caught:
        page_of(FIRST)
    assert caught.value.hint == f"fab fetch --run {FIRST}"


def test_a_folder_of_results_needs_no_record(project: Path) -> None:
    folder = record_run()
    shutil.rmtree(local_state.home())
    assert "90.00 %" in report([str(folder)], str(project / "out"), None, project).read_text()


# --- Text of a host --------------------------------------------------------------------------

EVIL = '"><img src=http://127.0.0.1:{port}/x onerror=alert(1)><script>console.error(1)</script>'


class Tags(HTMLParser):
    """Collects the names of tags, and the attributes that can load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_what_a_host_writes_is_text(project: Path) -> None:
    evil = EVIL.format(port=9)
    folder = record_run(name=evil, model=evil)
    place = {"rank": 1, "host": evil, "doing": "call", "file": evil, "line": 7, "text": evil}
    stall = {"text": f"\x1b[2J{evil}", "seconds": 74, "behind": [1], "places": [place]}
    culprit = {"rank": 1, "host": evil, "lines": [evil, "\x1b[2Jred"]}
    for failed in (culprit, {**culprit, "stall": stall}):
        change(folder / "result.json", culprit=failed)
        html = page_of(FIRST)
        assert escape(evil) in html and "\x1b" not in html
        assert ("no progress: " in html) is ("stall" in failed)
        tags = Tags()
        tags.feed(html)
        assert "script" not in tags.tags
        assert all(link.startswith("data:") for link in tags.links)


DAMAGED: dict[str, Any] = {
    "confusion": [[1], [2, 3]], "worst": [{"picture": "../../../etc/passwd"}, 5], "loss": "nan",
    "per_class": ["x", {"class": 3}], "thresholds": [1, {"value": {}}, {"value": "0.5"}],
    "failed": 7, "classes": {}, "worst_of": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_evaluation_causes_no_traceback(project: Path, name: str) -> None:
    folder = record_run()
    change(folder / "evaluation.json", **{name: DAMAGED[name]})
    assert "root:" not in page_of(FIRST)


@pytest.mark.parametrize("file", ["evaluation", "run", "result", "metrics"])
@pytest.mark.parametrize("content", ["[", "[]", "null", '{"program": 3, "hosts": [1], "size": {}}'])
def test_a_damaged_file_causes_no_traceback(project: Path, file: str, content: str) -> None:
    folder = record_run()
    (folder / f"{file}.{'jsonl' if file == 'metrics' else 'json'}").write_text(content)
    assert page_of(FIRST)
    assert page_of(str(folder))


def test_a_picture_with_a_name_that_is_too_long_is_left_out(project: Path) -> None:
    folder = record_run()
    change(folder / "evaluation.json", worst=[{"picture": "x" * 5000}, {"picture": "worst/1.png"}])
    assert page_of(FIRST).count("data:image/png") == 1


RECORDS: dict[str, list[dict[str, Any]]] = {
    "a time after the year 9999": [{"kind": "checkpoint", "step": 1, "time": 1e12}],
    "values too near to each other": [
        {"kind": "epoch", "epoch": n, "loss": loss} for n, loss in enumerate((0.0, -5e-324))
    ],
    "a value too near to zero": [{"kind": "epoch", "epoch": 1, "loss": 1e-322}],
    "a name that is not a formula": [
        {"kind": "metric", "name": name, "number": 1, "value": 1.0} for name in ("$\\x{$", "\ud800")
    ],
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_cannot_be_drawn_causes_no_traceback(project: Path, name: str) -> None:
    folder = record_run()
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, RECORDS[name])))
    assert written(FIRST)


def test_a_metric_that_was_last_not_a_number_has_no_earlier_value(tmp_path: Path) -> None:
    values = [("loss", 0.1), ("loss", None), ("f1", None), ("f1", 0.5)]
    lines = [{"kind": "metric", "name": name, "value": value} for name, value in values]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert RunFacts("r", tmp_path, "c").metrics == {"f1": 0.5}


def test_no_run_at_all_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="name a run"):
        page_of()


def test_a_link_in_place_of_a_picture_is_not_shown(project: Path) -> None:
    folder = record_run()
    (project / "secret.png").write_bytes(PNG)
    (folder / "worst/1.png").unlink()
    (folder / "worst/1.png").symlink_to(project / "secret.png")
    assert "data:image/png" not in page_of(FIRST)


def test_the_pieces_of_a_page_escape_their_text() -> None:
    assert element("p", "<b>", class_='a"b') == '<p class="a&quot;b">&lt;b&gt;</p>'
    assert text("\x1b[31mred\u202e") == "red"
    assert '<td class="n">12.5 %</td>' in table(("a",), [("12.5 %",)])


# --- Several runs ----------------------------------------------------------------------------


def test_several_runs_are_compared_and_the_best_is_named(project: Path) -> None:
    record_run(learning_rate=0.1)
    record_run(SECOND, accuracy=0.95, learning_rate=0.01)
    html = page_of(FIRST, SECOND)
    assert (
        f"Best run: <b>{SECOND}</b>" in html and "accuracy 95.00 %, with learning_rate=0.01" in html
    )
    assert f'href="../{FIRST}/report.html">{FIRST}<' in written(FIRST, SECOND)
    for run_id in (FIRST, SECOND):
        assert f"Run {run_id}" in (project / "results" / run_id / "report.html").read_text()
    runs = [read_run(FIRST), read_run(SECOND)]
    assert differing(runs) == ["learning_rate"]
    assert short_names(runs) == ["learning_rate=0.1", "learning_rate=0.01"]
    with pytest.raises(UsageError, match="no run has the metric 'f2'; they have: accuracy, loss"):
        metric_for(runs, "f2")
    assert metric_for(runs) == "accuracy"


def test_the_lowest_loss_is_the_best_and_a_failed_run_never_is() -> None:
    def run(name: str, loss: float, state: str = "succeeded") -> RunFacts:
        evaluation = Evaluation(metrics={"loss": loss})
        return RunFacts(name, Path(), "c", result=Result(state=state), evaluation=evaluation)

    runs = [run("a", 0.5), run("b", 0.2), run("c", 0.1, "failed")]
    assert best_of(runs, "loss") is runs[1]
    assert best_of(runs, "accuracy") is None
    assert "(lower is better)" in sentence(runs[1], "loss", runs)


LOWER = "val_loss logloss mean_squared_error rmse val_perplexity WER dev.cer nll FID mape step_time"
LOWER += (
    " latency_ms seconds_per_step time_per_image valLoss stepTime mean_per_class_error p99-latency"
)
HIGHER = "accuracy images_per_second images_per_seconds power answer centered timely_share coverage"


def test_the_words_of_a_metric_decide_whether_lower_is_better() -> None:
    assert [name for name in LOWER.split() if not better(name, 1, 2)] == []
    assert [name for name in HIGHER.split() if not better(name, 2, 1)] == []


def test_the_command_has_no_value_of_a_variable() -> None:
    args = program(script="t.py", args="--epochs 3", env=("TOKEN=hidden",), metrics=("a=(.)",))
    options = json.loads(json.dumps(encode(args)))
    assert command(options, "--hosts a,b") == (
        "fab train --hosts a,b --script t.py '--args=--epochs 3' --env TOKEN=... --metric 'a=(.)'"
    )
    assert command({}, "") == ""


def test_only_a_square_matrix_of_numbers_is_shown() -> None:
    def shown(confusion: Any) -> bool:
        evaluation = decode(Evaluation, {"confusion": confusion, "samples": 4})
        return "Confusion matrix" in evaluation_markup(evaluation, Path())

    assert shown([[1, 2], [3, 4]])
    for wrong in ([], [[1, 2]], [[1], [2]], [["a", 1], [2, 3]], 5, [[1] * 101] * 101):
        assert not shown(wrong)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.1234, 0.1235), (-5, 1e9), (1e-9, 2e-9)])
def test_the_numbers_of_an_axis_are_few_and_inside(low: float, high: float) -> None:
    numbers = ticks(low, high)
    assert 2 <= len(numbers) <= 6
    assert all(low - 1e-9 * abs(low) <= value <= high * (1 + 1e-9) for value in numbers)


# --- The list --------------------------------------------------------------------------------


def listed(sort: str = "time") -> list[str]:
    return [row.document().run_id for row in listing.known_runs(sort)]


def test_the_list_is_sorted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_run(accuracy=0.95)
    record_run(SECOND)
    third = "20261122-120000-0003"
    local_state.save_run(RunRecord(third, "c", str(Path("results").absolute() / third)))
    assert listed() == [third, SECOND, FIRST]
    assert listed("accuracy") == [FIRST, SECOND, third]
    with pytest.raises(UsageError, match="choices: time, duration, cost, accuracy, loss"):
        listed("f2")
    capsys.readouterr()
    listing.show("time")
    head, first, *_, last = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["run", "program", "launcher", "hosts", "state", "duration"]
    assert "not fetched" in first and last == f"next: fab fetch {third}"


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_of_scripts_fits_into_the_terminal(project: Path, width: int) -> None:
    hosts = tuple(replace(RUN.hosts[0], name=f"gpu-machine-{n}") for n in (1, 2))
    for number, name in enumerate(("baseline", "")):
        run_id = f"20261122-10000{number}-000a"
        script = Script("script", "examples/train_resnet.py")
        document = run_document(
            run_id=run_id, hosts=hosts, program=script, name=name, launcher="tensorflow"
        )
        record_run(run_id)
        save_run(Path("results").absolute() / run_id, document)
    head, *rows = listing.lines(listing.known_runs("accuracy"), "accuracy", width)
    assert max(map(len, (head, *rows))) <= width
    assert head.split()[:6] == ["run", "name", "program", "launcher", "hosts", "state"]
    (named,) = [row for row in rows if "baseline" in row]
    assert "examples" in named and "tensorflow" in named and "gpu" in named
    assert ("duration" in head) is (width == 120)


def test_of_the_runs_of_a_bucket_the_newest_are_listed(
    on_gcs: OnGcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST", 2)
    local_state.save_cluster(replace(on_gcs.inventory, name="c"))
    runs = [f"20261122-1{hour}0000-000{hour}" for hour in range(4)]
    for run_id in runs:
        on_gcs.put(f"runs/{run_id}/{RESULT}", b'{"state": "succeeded", "seconds": 5.0}')
    assert listed() == runs[:1:-1]


def test_runs_that_are_here_do_not_count_among_the_newest_of_a_bucket(
    on_gcs: OnGcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST", 1)
    record_run(SECOND)
    local_state.save_cluster(replace(on_gcs.inventory, name="c"))
    result = {"state": "succeeded", "seconds": 5.0, "evaluation": {}}
    for run_id in (FIRST, SECOND):
        on_gcs.put(f"runs/{run_id}/{RESULT}", json.dumps(result).encode())
    assert listed() == [SECOND, FIRST]


def test_runs_in_a_bucket_are_listed_unless_their_results_are_here(on_gcs: OnGcs) -> None:
    record_run()
    local_state.save_run(RunRecord(SECOND, "c", str(Path("results").absolute() / SECOND)))
    local_state.save_cluster(replace(on_gcs.inventory, name="c"))
    third, damaged = "20261122-120000-0003", "20261122-130000-0004"
    result = {"state": "succeeded", "seconds": 5.0, "evaluation": {"accuracy": 0.99}}
    texts = {
        FIRST: json.dumps(result),
        SECOND: json.dumps(result),
        third: json.dumps(result),
        damaged: "[",
    }
    for run_id, content in {**texts, "../x": json.dumps(result)}.items():
        on_gcs.put(f"runs/{run_id}/{RESULT}", content.encode())
    assert listed("accuracy") == [third, SECOND, FIRST]
    rows = {row.run.run_id: encode(row.document()) for row in listing.known_runs("accuracy")}
    assert rows[SECOND]["results"] == f"gs://results-b/runs/{SECOND}"
    assert rows[third]["metrics"] == {"accuracy": 0.99}
    assert rows[FIRST]["results"].endswith(FIRST), "the results that are here"


# --- In a browser ----------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
    "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--enable-logging=stderr",
)  # fmt: skip
# A page as a telephone shows it, and as paper does: 360 and 700 pixels wide.
FRAME = '<iframe style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>\n'
MEASURE = """<script>onload = () => {
const seen = [...document.querySelectorAll("iframe")].map((frame) => {
const inner = frame.contentDocument, top = inner.documentElement;
const boxes = [...inner.querySelectorAll(".matrix")];
const right = (e) => e.getBoundingClientRect().right;
const cut = boxes.filter((e) => right(e.querySelector("svg")) > top.clientWidth).length;
const seen = [...inner.querySelectorAll(".tip text")].filter(
  (e) => getComputedStyle(e).visibility != "hidden");
const sizes = [top.scrollWidth, top.clientWidth, inner.images.length, boxes.length, cut,
  seen.length];
return sizes.join(" "); });
document.body.dataset.seen = seen.join(","); }</script>"""


def browse(tmp_path: Path, page: Path, *flags: str) -> tuple[str, str]:
    """The DOM of a page that Chromium has shown, and what Chromium logs."""
    assert CHROMIUM
    argv = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, f"file://{page}"]
    environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    process = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout, process.stderr


def framed(html: str) -> str:
    """The page on a telephone and on paper, each in a frame."""
    on_paper = html.replace("@media print", "@media all")
    return "".join(
        FRAME.format(width=width, page=escape(shown))
        for width, shown in ((360, html), (700, on_paper))
    )


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_shows_the_pages_and_requests_nothing(project: Path) -> None:
    """The pages of one run and of two: they do not scroll to the side, only the picture of a sample
    is an image, no matrix is cut, and they can be printed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        evil = EVIL.format(port=server.getsockname()[1])
        folder = record_run(name=evil)
        record_run(SECOND, learning_rate=0.1, model=evil)
        matrix = {"classes": [evil] * 30, "confusion": [[9999] * 30] * 30}
        change(folder / "evaluation.json", **matrix)
        pages = [page_of(FIRST), page_of(FIRST, SECOND)]
        frames, page, pdf = (project / name for name in ("frames.html", "page.html", "page.pdf"))
        frames.write_text("<!DOCTYPE html>\n" + "".join(map(framed, pages)) + MEASURE)
        dom, log = browse(project, frames, "--dump-dom")
        seen = re.search(r'data-seen="([\d ,]+)"', dom)
        assert seen and "CONSOLE" not in log
        assert seen[1].split(",") == ["360 360 1 1 0 0", "700 700 1 1 0 0", "360 360 0 0 0 0",
                                      "700 700 0 0 0 0"]  # fmt: skip
        page.write_text(pages[0])
        _, log = browse(project, page, f"--print-to-pdf={pdf}")
        assert pdf.read_bytes().startswith(b"%PDF") and "CONSOLE" not in log
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
