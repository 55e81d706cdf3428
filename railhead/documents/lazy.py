"""Dataclasses whose methods are made when they are first used, and cheaply.

`dataclasses` compiles six methods for each class, about 0.8 ms of CPU, and a program on a host has
some hundred classes of which it uses ten. Here `__init__` alone is compiled (0.15 ms); the other
methods are the same functions for all classes. Hosts import what they use of `dataclasses` from
here, which avoids `inspect`. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import sys
from _thread import RLock
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any


class _LateInspect:
    """Stands for `inspect` in `dataclasses`, whose import is a fifth of an agent's start."""

    __spec__ = None  # read by `import`

    def get_annotations(self, cls: type[Any]) -> dict[str, Any]:
        """Needed for each class, from Python 3.12."""
        return dict(vars(cls).get("__annotations__", {}))

    def __getattr__(self, name: str) -> Any:
        import inspect

        dataclasses.inspect = inspect  # type: ignore[attr-defined]
        return getattr(inspect, name)


if {"dataclasses", "inspect"}.isdisjoint(sys.modules):
    sys.modules["inspect"] = _LateInspect()  # type: ignore[assignment]
    try:
        import dataclasses
    finally:
        del sys.modules["inspect"]
else:
    import dataclasses

LOCK = RLock()
FIELDS = "__dataclass_fields__"  # of dataclasses and their instances

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
else:
    MISSING, field, fields = dataclasses.MISSING, dataclasses.field, dataclasses.fields
    replace = dataclasses.replace

    def dataclass(cls: Any = None, **parameters: Any) -> Any:
        """`dataclasses.dataclass`, applied before the first instance, or when the fields are
        requested, as by `dataclasses.fields` and `replace`. Its parameters here: `frozen`, `eq`,
        `kw_only`."""
        if cls is None:
            return partial(dataclass, **parameters)
        if not {"__init__", "__new__"}.isdisjoint(vars(cls)):
            return dataclasses.dataclass(**parameters)(cls)
        _Waiting(cls, **parameters)
        return cls


class _Waiting:
    """Stands for the fields of a class until they or an instance are needed."""

    def __init__(
        self, cls: Any, *, frozen: bool = False, eq: bool = True, kw_only: bool = False
    ) -> None:
        self.cls, self.frozen, self.eq, self.kw_only = cls, frozen, eq, kw_only
        self.module, self.made = sys.modules[cls.__module__], False

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
        """Give the class its fields and its methods, once; other threads wait meanwhile."""
        with LOCK:
            if not self.made:
                with self.known_module():
                    self.make_fields()
                for name, method in self.methods().items():
                    if name not in vars(self.cls):
                        setattr(self.cls, name, method)
                self.made = True

    def make_fields(self) -> None:
        """Let `dataclasses` make the fields. For a class without a docstring it would make one from
        the signature, with `inspect`."""
        self.cls.__doc__ = self.cls.__doc__ or self.cls.__name__
        without_methods = {"init": False, "repr": False, "eq": False}
        dataclasses.dataclass(**without_methods, kw_only=self.kw_only)(self.cls)

    def methods(self) -> dict[str, Any]:
        """The methods that `dataclasses` would compile."""
        fields = dataclasses.fields(self.cls)
        made: dict[str, Any] = {"__init__": _init(self.cls, fields, self.frozen)}
        made["__repr__"] = _repr([field.name for field in fields if field.repr])
        if self.eq:
            made["__eq__"] = _eq([field.name for field in fields if field.compare])
            hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
            made["__hash__"] = _hash(hashed) if self.frozen else None
        if self.frozen:
            names = frozenset(field.name for field in fields)
            made["__setattr__"] = _refusing(self.cls, names, "assign to", "__setattr__")
            made["__delattr__"] = _refusing(self.cls, names, "delete", "__delattr__")
        return made

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


def _init(cls: Any, fields: Sequence[Any], frozen: bool) -> Any:
    """`__init__` of a class with these fields."""
    known: dict[str, Any] = {"_set": object.__setattr__, "__name__": cls.__module__}
    by_place: list[str] = ["_self"]
    by_name: list[str] = []
    body: list[str] = []
    for field in fields:
        name, default, made = field.name, f"_default_{field.name}", f"_made_{field.name}"
        known[default], known[made] = field.default, field.default_factory
        value = name if field.init else default
        if known[made] is not dataclasses.MISSING:
            known[default] = known[made]  # a mark: the factory is then called
            value = f"{made}() if {value} is {default} else {value}"
        has_default = known[default] is not dataclasses.MISSING
        if field.init:
            (by_name if field.kw_only else by_place).append(
                f"{name}={default}" * has_default or name
            )
        if field.init or has_default:
            body.append(f"_set(_self, {name!r}, {value})" if frozen else f"_self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("_self.__post_init__()")
    arguments = ", ".join(by_place + ["*"] * bool(by_name) + by_name)
    exec(f"def __init__({arguments}):\n " + "\n ".join(body or ["pass"]), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {
        "return": None
    }
    return init


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    def shown(self: Any) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({', '.join(values)})"

    return shown


def _eq(names: Sequence[str]) -> Callable[[Any, Any], Any]:
    values = attrgetter("__class__", *names)

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal


def _hash(names: Sequence[str]) -> Callable[[Any], int]:
    values = attrgetter("__class__", *names)
    return lambda self: hash(values(self))


def _refusing(cls: Any, names: Collection[str], verb: str, method: str) -> Callable[..., None]:
    """A method that changes no field."""

    def change(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")
        getattr(super(cls, self), method)(name, *value)

    return change
