"""Dataclasses that are made when they are first used are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import shutil
import subprocess
import sys
import threading
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from railhead.documents import lazy
from railhead.documents.lazy import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Base(Generic[T]):
    name: str
    items: tuple[T, ...] = ()
    options: dict[str, int] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Below(Base[int]):
    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(self.size)


class Plain(Below):
    """A class without a decorator."""


@dataclass
class Changed:
    count: int = 0
    of: str = ""


@dataclass
class Filled:
    """One whose fields are not all given."""

    first: int
    items: list[int] = field(default_factory=list)
    fixed: int = field(init=False, default=3)
    made: list[int] = field(init=False, default_factory=lambda: [4])
    later: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.later = self.first + 1


@dataclass(frozen=True)
class Wrong(Exception):  # noqa: N818
    text: str


def test_an_instance_is_that_of_a_dataclass() -> None:
    below = Below("a", (1,), size=4)
    assert repr(below) == "Below(name='a', items=(1,), options={}, size=4)"
    assert below == Below("a", (1,), {"x": 1}, size=4) != Below("a", size=4)
    assert hash(below) == hash(replace(below)) and replace(below, size=5).size == 5
    assert [f.name for f in fields(Plain)] == ["name", "items", "options", "size"]
    assert is_dataclass(Changed) and Below.__match_args__ == ("name", "items", "options")
    assert type(Plain("b")) is Plain and copy.deepcopy(below) == below == pickle.loads(
        pickle.dumps(below)
    )
    with pytest.raises(FrozenInstanceError):
        below.size = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match="name"):
        Below()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="-1"):
        Below("a", size=-1)
    changed = Changed(of="")
    changed.count += 1
    assert changed == Changed(1)
    with pytest.raises(Wrong) as error:
        raise Wrong("bad")
    assert error.value.text == "bad"


def test_fields_are_filled_as_they_are_declared() -> None:
    first, second = Filled(1), Filled(1)
    assert first == second and repr(first) == "Filled(first=1, items=[], fixed=3, made=[4])"
    assert first.items is not second.items and first.made is not second.made and first.later == 2
    assert Filled(1, [5]).items == [5] and Filled(1) != Filled(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)
    with pytest.raises(TypeError, match="fixed"):
        Filled(1, fixed=2)  # type: ignore[call-arg]
    first.first = 7
    assert replace(first, items=[1]).later == 8
    base: Any = Base("a")
    with pytest.raises(FrozenInstanceError):
        del base.name
    assert base != Plain("a") and base != "a"


# A class, and what is compiled when it is first used.
COMPILED = """
import sys
sys.path.insert(0, sys.argv[1])
compiled = []
from railhead.documents.lazy import dataclass, fields, replace
@dataclass(frozen=True)
class One:
    x: int
    y: int = 2
sys.addaudithook(lambda event, given: event == "compile" and compiled.append(given[1]))
assert replace(One(1), x=3) == One(3) != One(4) and hash(One(3)) and repr(One(3))
print(len(compiled), "inspect" in sys.modules)
"""


def test_the_first_use_of_a_class_compiles_one_function(tmp_path: Path) -> None:
    """And `dataclasses` comes without `inspect`."""
    shutil.copytree(Path(lazy.__file__).parent, tmp_path / "railhead/documents")
    argv = [sys.executable, "-I", "-S", "-c", COMPILED, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


def test_a_class_that_nobody_uses_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    process = dataclasses._process_class  # type: ignore[attr-defined]

    def counted(cls: type[Any], *args: Any) -> Any:
        made.append(cls.__name__)
        return process(cls, *args)

    monkeypatch.setattr(dataclasses, "_process_class", counted)

    @dataclass(frozen=True)
    class Used:
        x: int

    @dataclass(frozen=True)
    class Unused:
        x: int

    assert (Used(1), Used(2)) == (Used(1), Used(2)) and made == ["Used"]


def test_threads_that_use_a_class_at_once_get_whole_instances() -> None:
    """A class without its methods was visible between two of its changes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):

            @dataclass(frozen=True)
            class Met:
                x: int
                y: int = 2

            met: list[Any] = []
            start = threading.Barrier(8)

            def meet(kind: Any = Met, start: Any = start, met: Any = met) -> None:
                start.wait()
                met.append(kind(1))

            threads = [threading.Thread(target=meet) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert met == [Met(1)] * 8
    finally:
        sys.setswitchinterval(interval)
