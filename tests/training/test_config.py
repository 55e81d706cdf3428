"""The settings: their rules, their messages, and what `--check` tells the control side."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest
from places import ROOT

from training import presets
from training.config import (
    STRATEGIES,
    ConfigError,
    TrainConfig,
    describe_fields,
    parse_assignments,
    resolve,
)

GOOD = [
    ("epochs=3", 3),
    ("epochs= 3", 3),
    ("learning_rate=1e-2", 0.01),
    ("learning_rate=1", 1.0),
    ("warmup_epochs=0", 0.0),
    ("min_accuracy=0.9", 0.9),
    ("min_accuracy=none", None),
    ("model=linear", "linear"),
    ("steps_per_epoch=0", 0),
]

BAD = [
    ("epochs", "a setting is written name=value, not 'epochs'"),
    ("epoch=3", "unknown setting 'epoch'. Did you mean epochs? Choices: data, label, "),
    ("lr=0.1", "unknown setting 'lr'. Did you mean learning_rate? Choices: data, label, "),
    ("=3", "unknown setting ''. Choices: data, "),
    ("epochs=1.5", "epochs: '1.5' is not a whole number of at least 1"),
    ("epochs=none", "epochs: 'none' is not a whole number"),
    ("min_accuracy=1.1", "min_accuracy: 1.1 is not a number from 0 to 1 or none"),
    ("held_out=1", "held_out: 1 is not a number above 0 and below 1"),
    ("data=digit", "data: 'digit' is not one of digits, synthetic, mnist, "),
    ("data=;reboot", "data: ';reboot' is not one of digits, synthetic, "),
    ("class_weights=1,x", "class_weights are numbers from 0, such as 1,2.5,1, not 'x'"),
    ("class_weights=1,-1", "class_weights are numbers from 0, such as 1,2.5,1, not '-1'"),
    ("class_weights=1,nan", "class_weights are numbers from 0, such as 1,2.5,1, not 'nan'"),
    ("class_weights=0,0", "class_weights needs a number above 0"),
    ("callbacks=a,os:system()", "callbacks are names of keras.callbacks or module:name, not 'os:s"),
    ("augment=os", "augment is module:name, not 'os'"),
    ("metrics=a:b:c", "metrics has 'a:b:c', which is not "),
    ("metrics=top_0", "metrics has 'top_0', which is not "),
    ("metrics=auc,m:loss", "metrics has 'm:loss', which is "),
    ("metrics=auc,m:auc", "metrics has auc twice"),
]

BAD_VALUES = [
    ({"epochs": "3"}, "epochs: '3' is not a whole number"),
    ({"epochs": None}, "epochs: None is not a whole number"),
    ({"learning_rate": True}, "learning_rate: True is not a number above 0"),
    ({"speed": 1}, "unknown setting 'speed'"),
]


@pytest.mark.parametrize(("word", "value"), GOOD)
def test_a_word_is_read_by_the_type_of_its_setting(word: str, value: object) -> None:
    name = word.partition("=")[0]
    parsed = getattr(resolve(parse_assignments([word])), name)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(("word", "message"), BAD)
def test_a_wrong_word_is_refused_with_rule_value_and_choices(word: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(parse_assignments([word]))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("settings", "message"), BAD_VALUES)
def test_a_wrong_value_in_a_run_document_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "value"), [("min_accuracy", 0.5), ("label_smoothing", 0.1), ("class_weights", "1,2")]
)
def test_what_needs_classes_is_refused_without_them(name: str, value: object) -> None:
    for task in ("regression", "multi-label")[: 1 if name == "label_smoothing" else 2]:
        with pytest.raises(ConfigError, match=f"{name} needs a task with"):
            resolve({"task": task, name: value})


def test_a_list_is_separated_by_commas_or_spaces() -> None:
    config = resolve({"class_weights": "1,2.5 3", "metrics": "top_2 auc,my.metrics:own"})
    assert config.factors_of_classes == (1.0, 2.5, 3.0)
    assert config.more_metrics == ["top_2", "auc", "my.metrics:own"]


def test_further_metrics_may_be_thresholds() -> None:
    done = check("--json", "--set", "metrics=top_3,my.metrics:own")
    assert json.loads(done.stdout)["metrics"][-2:] == ["top_3", "own"]


def test_the_last_value_for_a_setting_wins() -> None:
    assert parse_assignments(["epochs=1", "epochs=2"]) == {"epochs": 2}


@pytest.mark.parametrize("preset", presets.PRESETS)
def test_every_preset_resolves_and_has_one_line(preset: str) -> None:
    resolve(presets.changes(preset))
    assert presets.summaries()[preset]
    assert "\n" not in presets.summaries()[preset]


def test_the_default_preset_changes_nothing() -> None:
    assert resolve(presets.changes(presets.DEFAULT)) == TrainConfig()


def test_settings_survive_the_run_document() -> None:
    config = resolve({"min_accuracy": 0.5, "epochs": 2})
    assert resolve(json.loads(json.dumps(asdict(config)))) == config


def test_every_setting_has_a_doc() -> None:
    assert all(described["doc"] for described in describe_fields().values())


def check(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the check as the control side does: without site-packages."""
    command = [sys.executable, "-S", "-m", "training", "--check", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_check_resolves_a_preset_and_lists_the_choices() -> None:
    done = check("--json", "--preset", "smoke", "--set", "epochs=7", "--strategy", "horovod")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert set(answer) == {"settings", "presets", "strategies", "fields", "folder", "metrics"}
    assert answer["settings"] == asdict(resolve({**presets.changes("smoke"), "epochs": 7}))
    assert answer["presets"] == presets.summaries()
    assert answer["strategies"] == list(STRATEGIES)
    assert answer["fields"].keys() == answer["settings"].keys()
    assert {"type": "int", "default": 20}.items() <= answer["fields"]["epochs"].items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (("--preset", "smok"), "unknown preset 'smok'. Did you mean smoke? Choices: digits, "),
        (("--strategy", "horovd"), "unknown strategy 'horovd'. Did you mean horovod? Choices: "),
        (("--set", "epochs=0"), "epochs: 0 is not a whole number of at least 1"),
    ],
)
def test_check_ends_with_2_and_one_line(text: tuple[str, ...], message: str) -> None:
    done = check("--json", *text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_each_setting_is_described_with_its_type_and_rules() -> None:
    described = describe_fields()
    shift = described["shift"]
    assert (shift["type"], shift["default"], shift["bounds"]) == ("int", 1, "from 0 to 8")
    assert shift["doc"].startswith("pixels by which")
    assert {described[name]["type"] for name in described} == {
        "int",
        "float",
        "str",
        "float or none",
    }
    kinds = {name: described[name]["type"] for name in ("model", "learning_rate", "min_accuracy")}
    assert kinds == {"model": "str", "learning_rate": "float", "min_accuracy": "float or none"}


def test_a_value_may_have_an_equals_sign() -> None:
    with pytest.raises(ConfigError, match="'mlp=x'"):
        resolve(parse_assignments(["model=mlp=x"]))
