"""Dataclasses whose methods are made when they are first used.

`dataclasses` compiles six methods for each class, about 0.8 ms of CPU in Python 3.11, and a program
on a host has some hundred classes of which it uses ten. Standard library only, Python 3.10.
"""

from __future__ import annotations

import dataclasses
from _thread import RLock
from functools import partial
from typing import TYPE_CHECKING, Any

LOCK = RLock()
FIELDS = "__dataclass_fields__"

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: Any = None, **parameters: Any) -> Any:
        """`dataclasses.dataclass`, applied before the first instance, or when somebody asks for the
        fields, as `dataclasses.fields` and `replace` do."""
        if cls is None:
            return partial(dataclass, **parameters)
        if "__init__" in vars(cls):  # of the class itself
            return dataclasses.dataclass(**parameters)(cls)
        _Waiting(cls, parameters)
        return cls


class _Waiting:
    """Stands for the fields of a class, and for its `__init__`, until either is used."""

    def __init__(self, cls: type[Any], parameters: dict[str, Any]) -> None:
        self.cls, self.parameters, self.made = cls, parameters, False

        def init(instance: Any, *args: Any, **more: Any) -> None:
            self.make()
            self.init(instance, *args, **more)

        self.init = self.stub = init
        cls.__init__ = init
        setattr(cls, FIELDS, self)

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self.make()
        return getattr(owner, FIELDS)

    def make(self) -> None:
        """Let `dataclasses` make the methods; once, also with threads."""
        with LOCK:
            if self.made:
                return
            self.made, around = True, self.cls.__init__
            del self.cls.__init__  # `dataclasses` replaces none
            delattr(self.cls, FIELDS)
            dataclasses.dataclass(**self.parameters)(self.cls)
            self.init = self.cls.__init__
            if around is not self.stub:  # somebody's, which calls the stub
                self.cls.__init__ = around
