"""Debian packages for tests, and their repository: a folder that apt reads.

The packages are real, only their contents are not: apt resolves, fetches, unpacks, configures and
holds them like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from hosts.command import run

SCRIPTS = ("preinst", "postinst", "prerm", "postrm")


class Repository:
    """A flat repository in `folder`; `source` is its line in sources.list at `address`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[Path, str] = {}  # by package
        folder.mkdir(parents=True)
        self.write_index()

    def add(
        self,
        name: str,
        *,
        version: str = "1",
        depends: str = "",
        files: Mapping[str, str] | None = None,
        **scripts: str,
    ) -> Path:
        """Build a package, put it into the index and return its file.

        A file that begins with "#!" can be run. `scripts` are lines of sh: postinst="sleep 9".
        """
        tree = self.folder / f"{name}.tree"
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: tests\n"
        control += f"Depends: {depends}\n" if depends else ""
        write(tree / "DEBIAN/control", f"{control}Description: a stand-in\n")
        for script, text in scripts.items():
            assert script in SCRIPTS
            write(tree / "DEBIAN" / script, f"#!/bin/sh\nset -e\n{text}\n")
        for path, text in (files or {}).items():
            write(tree / path.lstrip("/"), text)
        package = self.folder / f"{name}_{version}_all.deb"
        run("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(package))
        run("rm", "-r", str(tree))
        self._entries.pop(package, None)  # of an earlier build
        self.write_index()
        return package

    def write_index(self) -> None:
        """Write the index, which apt reads first."""
        for package in self.folder.glob("*.deb"):
            if package not in self._entries:
                self._entries[package] = entry(package)
        text = "\n".join(text for _, text in sorted(self._entries.items()))
        (self.folder / "Packages").write_text(text)

    @staticmethod
    def source(address: str) -> str:
        """The line of sources.list for the repository under an address."""
        return f"deb [trusted=yes] {address} ./\n"


def entry(package: Path) -> str:
    """What the index says of a package."""
    fields = run("dpkg-deb", "--field", str(package)).strip()
    place = f"Filename: ./{package.name}\nSize: {package.stat().st_size}"
    return f"{fields}\n{place}\nSHA256: {sha256(package)}\n"


def sha256(path: Path) -> str:
    """The digest of a file, as apt has it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(path: Path, text: str) -> None:
    """Write a file and its folders; a script can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if text.startswith("#!") else 0o644)
