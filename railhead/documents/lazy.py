"""Dataclasses whose methods are made when they are first used.

`dataclasses` compiles six methods for each class, about 0.8 ms of CPU in Python 3.11, and a program
on a host has some hundred classes of which it uses ten. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from _thread import RLock
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

LOCK = RLock()
FIELDS = "__dataclass_fields__"  # of dataclasses and their instances

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: Any = None, **parameters: Any) -> Any:
        """`dataclasses.dataclass`, applied before the first instance, or when somebody asks for the
        fields, as `dataclasses.fields` and `replace` do."""
        if cls is None:
            return partial(dataclass, **parameters)
        if not {"__init__", "__new__"}.isdisjoint(vars(cls)):
            return dataclasses.dataclass(**parameters)(cls)
        _Waiting(cls, parameters)
        return cls


class _Waiting:
    """Stands for the fields of a class until they or an instance are needed."""

    def __init__(self, cls: Any, parameters: dict[str, Any]) -> None:
        self.cls, self.parameters, self.made = cls, parameters, False
        self.module = sys.modules[cls.__module__]

        def new(of: type[Any], /, *_: Any, **__: Any) -> Any:
            if not self.made:
                self.make()
            return super(cls, of).__new__(of)

        cls.__new__ = new
        setattr(cls, FIELDS, self)

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self.make()
        return getattr(owner, FIELDS)

    def make(self) -> None:
        """Let `dataclasses` make the methods, once; other threads wait meanwhile."""
        with LOCK:
            if not self.made:
                with self.known_module():
                    dataclasses.dataclass(**self.parameters)(self.cls)
                self.made = True

    @contextlib.contextmanager
    def known_module(self) -> Iterator[None]:
        """`dataclasses` looks up the module of a class, which a rank has removed from sys.modules
        before the program of a user runs."""
        name = self.cls.__module__
        before = sys.modules.get(name)
        sys.modules[name] = self.module
        try:
            yield
        finally:
            if before:
                sys.modules[name] = before
            else:
                del sys.modules[name]
