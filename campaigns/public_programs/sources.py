"""Where the files of a public program are: in RAILHEAD_PROGRAMS, a folder with the files of each
repository in OWNER/NAME; otherwise in the caches, fetched from GitHub once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .programs import Program

GITHUB = "https://github.com"
SECONDS = 300  # of a command of git


class NotFetched(Exception):
    """Why a program is not here."""


def folder_of(program: Program, caches: Path) -> Path:
    """The folder of the program's script, with the files beside it.

    Raises:
        NotFetched: it is not in RAILHEAD_PROGRAMS, or it cannot be fetched.
    """
    local = os.environ.get("RAILHEAD_PROGRAMS")
    files = Path(local) / program.repository if local else fetched(program, caches)
    script = files / program.path
    if not script.is_file():
        raise NotFetched(f"{script} does not exist")
    return script.parent


def fetched(program: Program, caches: Path) -> Path:
    """The program's commit of its repository, with the folders that are needed so far."""
    owner, name = program.repository.split("/")
    folder = caches / "railhead/public-programs" / f"{owner}+{name}"
    if (folder / program.path).is_file():
        return folder
    try:
        fetch(folder, f"{GITHUB}/{program.repository}", program)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        lines = str(error.stderr or error).strip().splitlines()
        raise NotFetched(f"{program.repository} cannot be fetched: {lines[-1]}") from None
    return folder


def fetch(folder: Path, url: str, program: Program) -> None:
    """Fetch one commit without its history, and only the folder of the script."""
    if not (folder / ".git").exists():
        git("init", "--quiet", str(folder))
        git("-C", str(folder), "remote", "add", "origin", url)
    here = ("-C", str(folder))
    git(
        *here, "sparse-checkout", "add" if sparse(folder) else "set", str(Path(program.path).parent)
    )
    git(*here, "fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", program.commit)
    git(*here, "checkout", "--quiet", program.commit)


def sparse(folder: Path) -> bool:
    """Whether a clone has a list of folders already."""
    return (folder / ".git/info/sparse-checkout").exists()


def git(*words: str) -> None:
    """Run git, which asks for no password."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    subprocess.run(
        ["git", *words],
        check=True,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
