"""The secrets of a run are in none of its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.runs.supervised_run import Run, says
from standins.waiting import wait_until

from bootstrap.host.output.rank_output import Secrets

SECRETS = {
    "a word": ("hunter2", "it is hunter2!", "it is [secret]!"),
    "several lines": ("-----BEGIN\nabcdef\n}\n", "x abcdef } -----BEGIN", "x [secret] } [secret]"),
    "as JSON has it": ('say "hi"', '{"a": "say \\"hi\\""}', '{"a": "[secret]"}'),
    "not ASCII": ("gr\u00fcn", "gr\u00fcn gr\\u00fcn", "[secret] [secret]"),
    "one within another": ("ab1\nab1cd2", "ab1cd2 ab1", "[secret] ab1"),
    "a pattern's characters": ("a.*b(", "a.*b( axxb(", "[secret] axxb("),
    "one that begins with another": ("abcd\nabcd-rest", "abcd-rest abcd", "[secret] [secret]"),
    "nothing": ("", "as it was", "as it was"),
}


@pytest.mark.parametrize("value, text, shown", SECRETS.values(), ids=SECRETS)
def test_secrets_are_taken_out(value: str, text: str, shown: str) -> None:
    assert Secrets([value]).redact(text.encode()).decode() == shown


@pytest.mark.parametrize("values", [("pass", "pass-word"), ("pass-word", "pass")])
def test_of_a_secret_that_begins_with_another_nothing_is_left(values: tuple[str, str]) -> None:
    assert Secrets(values).redact(b"pass-word pass word") == b"[secret] [secret] word"


def test_no_secret_is_in_any_file(home: Path) -> None:
    secret = "first-half\nsecond-half"
    record = '@railhead {"kind": "message", "text": "first-half\\nsecond-half"}'
    reported = [says(0, "first-half"), says(0, record), "echo second-half is wrong >&2"]
    over = home / "over"
    wait = f"until [ -e {over} ]; do {says(0, 'more')}; sleep 0.1; done"
    begun = f"printf '[1,1]<stdout>:a first-half'; {wait}"
    run = Run(home, "", secrets=["TOKEN"])
    (run.folder / "memory").mkdir()
    run.write("memory/secrets.json", {"TOKEN": secret})
    run.write("mpirun.json", ["sh", "work/do.sh"])  # the command itself contains no secret
    (run.folder / "work" / "do.sh").write_text("; ".join([*reported, begun, "exit 9"]))
    process = run.start()
    run.running()
    wait_until(lambda: run.read("state.json").get("begun", {}).get("1") == "a [secret]")
    over.touch()
    process.wait(60)
    result = run.read("results/result.json")
    assert result["culprit"]["lines"] == ["[secret] is wrong"]
    written = [p for p in run.folder.rglob("*") if p.is_file() and p.parent.name != "work"]
    assert run.log("rank-1") == "a [secret]\n"
    assert not [p for p in written if b"-half" in p.read_bytes()]
    assert not list(run.folder.glob("memory/*")), "whoever kills the supervisor finds no secret"
