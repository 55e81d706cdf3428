"""The site: `make site` builds it from the same pages, with search and `llms.txt`.

Zensical builds it, in a separate environment (locks/site.txt). Sphinx with MyST was the
alternative: alive too, with six times the packages, and a search that indexes pages, not sections.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.errors import RailheadError
from bootstrap.provision.local_environment import python_of

from . import synonyms
from .marked import DOCS, ROOT

SITE = ROOT / "build" / "site"
README = ROOT / "README.md"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\(([\w-]+\.md)\)")
OUTSIDE = {"../README.md": "index.md", "../CHANGELOG.md": "changelog.md"}
EXTENSIONS: Mapping[str, Mapping[str, Any]] = {
    "tables": {},
    "sane_lists": {},
    "toc": {"permalink": True},
    "pymdownx.highlight": {},
    "pymdownx.superfences": {},
}
# The preference of the reader's computer, its scheme of the theme, an icon.
SCHEMES = (
    ("", "", "lucide/sun-moon", "the system's mode"),
    (": light", "default", "lucide/sun", "light mode"),
    (": dark", "slate", "lucide/moon", "dark mode"),
)


@dataclass(frozen=True)
class Page:
    """A page of the site. `about`: what docs/index.md says about it."""

    title: str
    file: str
    about: str = ""


def sections() -> dict[str, list[Page]]:
    """The pages by section, in the order of docs/index.md."""
    text = (DOCS / "index.md").read_text()
    sections = {name: _pages(body) for name, body in SECTION.findall(text)}
    sections["Development"].append(Page("Changelog", "changelog.md", "what changed for its user"))
    return sections


def _pages(body: str) -> list[Page]:
    rows = re.findall(r"^\| (\[.*?) \| (.*) \|$", body, re.MULTILINE)
    links = ((*link, about) for cell, about in rows for link in LINK.findall(cell))
    return [Page(title, file, about) for title, file, about in links]


def build(folder: Path = SITE) -> str:
    """Build the site into `folder`; returns what Zensical printed.

    Raises:
        RailheadError: a link or an anchor leads nowhere, or Zensical could not be installed.
    """
    source = folder.parent / f"{folder.name}-source"
    for old in (folder, source):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(DOCS, source / "docs", ignore=shutil.ignore_patterns("demo"))
    for path in (source / "docs").glob("*.md"):
        path.write_text(for_site(path.read_text()))
    (source / "docs" / "index.md").write_text(front())
    (source / "docs" / "changelog.md").write_text(changelog())
    (source / "docs" / "llms.txt").write_text(llms())
    (source / "zensical.toml").write_text(config())
    argv = [str(python_of("site")), "-m", "zensical", "build", "--strict"]
    process = subprocess.run(argv, cwd=source, capture_output=True, text=True)
    output = re.sub(r"\x1b\[[0-9;]*m", "", process.stdout + process.stderr)
    if process.returncode or "issues found" in output.replace("No issues found", ""):
        raise RailheadError(f"the site has wrong links:\n{output}")
    synonyms.add_to(source / "site" / "search.json")
    (source / "site").rename(folder)
    return output


def for_site(text: str) -> str:
    """A page whose blocks and links the site understands."""
    text = re.sub(r"^```console \w+$", "```console", text, flags=re.MULTILINE)
    for link, page in OUTSIDE.items():
        text = text.replace(f"]({link})", f"]({page})")
    return text


def front() -> str:
    """The first page: docs/index.md, with the picture and the reasons of the README before its
    first section."""
    reasons = re.search(r"^## Why\n.*?(?=^## |\Z)", README.read_text(), re.M | re.S)
    picture = re.search(r"^!\[.*\)$", README.read_text(), re.M)
    if not (reasons and picture):
        raise RailheadError("README.md lacks its picture, or its section Why")
    head, mark, rest = (DOCS / "index.md").read_text().partition("\n## ")
    shown = f"{picture[0]}\n\n{reasons[0]}".replace("](docs/", "](")
    return for_site(f"{head}\n{shown}{mark[1:]}{rest}")


def changelog() -> str:
    """CHANGELOG.md as a page."""
    return (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")


def llms() -> str:
    """llms.txt: the pages for a program that reads them, https://llmstxt.org."""
    head = (DOCS / "index.md").read_text().split("\n\n")
    lines = [head[0], "", f"> {' '.join(head[1].split())}"]
    for name, pages in sections().items():
        lines += ["", f"## {name}", ""]
        lines += [f"- [{p.title}]({p.file.removesuffix('.md')}/): {p.about}" for p in pages]
    return "\n".join(lines) + "\n"


def config() -> str:
    """zensical.toml: no font and no script of another site is loaded."""
    nav = [{"Railhead": "index.md"}]
    navigation: list[Any] = [
        {name: [{page.title: page.file} for page in pages]} for name, pages in sections().items()
    ]
    project = {
        "site_name": "Railhead",
        "site_description": "Distributed TensorFlow and Horovod training over plain SSH",
        "use_directory_urls": True,
        "nav": [*nav, *navigation],
    }
    lines = ["[project]", *(f"{key} = {_toml(value)}" for key, value in project.items())]
    features = ["navigation.sections", "navigation.top", "search.highlight", "content.code.copy"]
    lines += ["[project.theme]", "font = false", f"features = {_toml(features)}"]
    lines += [f"palette = {_toml(list(map(_scheme, SCHEMES, (*SCHEMES[1:], SCHEMES[0]))))}"]
    for name, options in EXTENSIONS.items():
        parts = ".".join(f'"{word}"' if "-" in word else word for word in name.split("."))
        lines += [f"[project.markdown_extensions.{parts}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in options.items()]
    return "\n".join(lines) + "\n"


def _scheme(scheme: Sequence[str], following: Sequence[str]) -> dict[str, Any]:
    """An entry of the theme's palette; its button switches to the following one."""
    preference, name, icon, _ = scheme
    toggle = {"icon": icon, "name": f"Switch to {following[3]}"}
    entry: dict[str, Any] = {"media": f"(prefers-color-scheme{preference})", "toggle": toggle}
    return entry | ({"scheme": name} if name else {})


def _toml(value: Any) -> str:
    """A value in TOML; JSON's form, except for a table."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    try:
        build()
    except RailheadError as error:
        sys.exit(str(error))
    print(f"{SITE}/index.html")
