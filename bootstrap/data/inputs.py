"""The data of a run as the user gave it, with the files of local data. Contacts no host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.names import is_manifest
from railhead.documents.runs.run import RunData

from ..errors import UsageError
from . import folders
from .folders import LocalData
from .spec import DataSpec


@dataclass(frozen=True)
class DataInput:
    """One `--data` option, with its files if it is local."""

    spec: DataSpec
    files: LocalData | None = None

    def share(self, index: int, hosts: int) -> LocalData:
        """The local files for one host: all, or its share."""
        assert self.files is not None
        return self.files.share(index, hosts) if self.spec.distribution == "shard" else self.files

    def in_run(self, paths: Sequence[str]) -> RunData:
        """The input in run.json; `paths` is empty for data that the hosts read from a bucket."""
        spec = self.spec
        return RunData(spec.name, spec.uri, spec.distribution, spec.mode, tuple(paths) or None)


def read_inputs(specs: Sequence[DataSpec]) -> tuple[DataInput, ...]:
    """The inputs with the names and sizes of local files, before a host is contacted."""
    return tuple(
        DataInput(spec, folders.listed(Path(spec.path), f"--data {spec.name}"))
        if spec.kind == "local"
        else DataInput(spec)
        for spec in specs
    )


def check_shares(inputs: Sequence[DataInput], hosts: int) -> None:
    """UsageError if local data to shard has fewer files than there are hosts."""
    for item in inputs:
        if item.files is None or item.spec.distribution != "shard":
            continue
        count = sum(not is_manifest(file.path) for file in item.files.files)
        if count < hosts:
            raise UsageError(
                f"--data {item.spec.name}: shard sends file i to host i modulo {hosts}, and there"
                f" are only {count} files for {hosts} hosts",
                hint=f"--data {item.spec.name}={item.spec.uri}   # every host gets all files",
            )
