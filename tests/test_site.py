"""The site: it is built, its links lead somewhere, and its search finds the usual questions."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from bootstrap.errors import RailheadError
from pages import site
from pages.marked import DOCS, ROOT

pytestmark = pytest.mark.slow  # the site is built twice

# What somebody types into the search, and the section that answers it.
JOURNEYS = {
    "train my script on four machines, data in S3": "my-script-on-four-machines-with-data-in-s3",
    "train.py on 4 machines s3": "my-script-on-four-machines-with-data-in-s3",
    "spot machine taken": "spot-took-my-machines",
    "spot took my job": "spot-took-my-machines",
    "what will it cost": "what-will-it-cost",
    "how much does it cost": "what-will-it-cost",
    "stop everything": "stop-everything",
    "shut down all machines": "stop-everything",
    "hyperparameters sweep": "hyperparameters",
    "grid search": "hyperparameters",
    "GPUs not used": "my-gpus-are-not-used",
    "corporate proxy": "behind-a-corporate-proxy",
    "VPC without public addresses": "machines-without-public-addresses",
    "EFS NFS FSx mount": "efs-fsx-and-nfs",
    "private subnet": "machines-without-public-addresses",
    "Slurm": "slurm-kubernetes-docker-and-pytorch",
    "Kubernetes": "slurm-kubernetes-docker-and-pytorch",
    "Docker": "slurm-kubernetes-docker-and-pytorch",
    "PyTorch": "slurm-kubernetes-docker-and-pytorch",
    "WSL": "from-a-mac-or-windows-laptop",
    "Mac laptop": "from-a-mac-or-windows-laptop",
    "Windows": "from-a-mac-or-windows-laptop",
    "upgrade": "upgrade",
    "update Railhead": "upgrade",
    "install without a clone": "install-without-a-clone",
    "pip install": "install-without-a-clone",
    "two people one stack": "two-people-one-stack",
    "share a stack with a colleague": "two-people-one-stack",
    "CI GitHub Actions": "ci-without-a-terminal",
    "MLflow": "mlflow-and-weights-and-biases",
    "wandb": "mlflow-and-weights-and-biases",
    "weights and biases": "mlflow-and-weights-and-biases",
    "A100": "a100-and-h100",
    "H100": "a100-and-h100",
    "delete everything": "delete-all-with-the-bucket",
    "delete bucket": "delete-all-with-the-bucket",
    "from SageMaker": "from-a-sagemaker-notebook",
    "from SkyPilot": "from-skypilot",
    "from a notebook": "from-a-notebook-on-one-t4",
    "my own model": "my-own-model-in-five-minutes",
}
# The same in words that the pages do not use.
OTHER_WORDS = {
    "kill training": "cancel",
    "abort training": "cancel",
    "download artifacts": "fetch",
    "tail stdout": "logs",
    "jupyter": "a-notebook",
    "inference REST API": "deploy",
    "preemptible": "spot-took-my-machines",
    "price": "what-will-it-cost",
    "bill": "what-will-it-cost",
    "hyperparameter tuning": "sweep",
    "port forward": "tunnel",
    "pip requirements": "packages",
    "orphan machines": "leaks",
    "remove machines of a stack, destroy": "teardown",
    "fingerprint": "trust",
}
# And what somebody types who has a problem.
SYMPTOMS = {
    "run hangs": "a-host-that-hangs",
    "training is slow": "it-is-slow",
    "cannot log in": "i-cannot-log-in",
    "still costs money": "something-still-costs-money",
    "disk full": "disk-full-on-a-host",
    "no space left on device": "disk-full-on-a-host",
    "permission denied publickey": "i-cannot-log-in",
    "out of memory": "a-rank-was-killed-by-signal-9-out-of-memory",
    "loss nan": "the-loss-is-not-a-number",
    "quota": "a-quota-is-too-small-or-there-is-no-capacity",
    "wrong Keras": "it-is-the-wrong-keras",
    "host key changed": "the-host-key-is-unknown-or-it-changed",
}
NEAR = 3  # places among the results


@dataclass(frozen=True)
class Section:
    """A section of the search index."""

    location: str
    title: frozenset[str]
    text: frozenset[str]


@dataclass(frozen=True)
class Search:
    """The index that the site's own search reads, by words: rarer ones and titles count more."""

    sections: tuple[Section, ...]

    @classmethod
    def of(cls, folder: Path) -> Search:
        index = json.loads((folder / "search.json").read_text())
        return cls(
            tuple(
                Section(
                    item["location"],
                    frozenset(words(" ".join((item["title"], *item["path"])))),
                    frozenset(words(re.sub(r"<[^>]+>", " ", item["text"]))),
                )
                for item in index["items"]
            )
        )

    def results(self, query: str) -> list[str]:
        """The locations, best first."""
        weights = {word: self._weight(word) for word in words(query)}

        def score(section: Section) -> float:
            return sum(
                weight * (3 * (word in section.title) + (word in section.text))
                for word, weight in weights.items()
            )

        return [one.location for one in sorted(self.sections, key=score, reverse=True)]

    def _weight(self, word: str) -> float:
        holding = sum(word in one.title or word in one.text for one in self.sections)
        return math.log(len(self.sections) / holding) if holding else 0


def words(text: str) -> list[str]:
    """The words of a text, without the s of a plural."""
    return [word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower())]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a link or an anchor that leads nowhere fails here."""
    folder = tmp_path_factory.mktemp("site") / "site"
    site.build(folder)
    return folder


@pytest.fixture(scope="module")
def search(built: Path) -> Search:
    return Search.of(built)


@pytest.mark.parametrize("query", [*JOURNEYS, *OTHER_WORDS, *SYMPTOMS])
def test_the_search_finds_the_answer(query: str, search: Search) -> None:
    answer = {**JOURNEYS, **OTHER_WORDS, **SYMPTOMS}[query]
    best = search.results(query)[:NEAR]
    assert answer in [location.partition("#")[2] for location in best], best


@pytest.mark.parametrize("answer", sorted({*JOURNEYS.values()}))
def test_an_answer_is_two_clicks_away_and_has_something_to_type(answer: str, built: Path) -> None:
    """The first click is a link of the start page, the second one a link on that page."""
    start = (built / "index.html").read_text()
    (name,) = (path.stem for path in DOCS.glob("*.md") if f"](#{answer})" in links_within(path))
    assert re.search(rf'href="{name}/"', start)
    page = (built / name / "index.html").read_text()
    assert page.count(f'href="#{answer}"') >= 2  # the list of contents, and a link of the text
    section = page.partition(f'id="{answer}"')[2].partition("<h2")[0]
    assert "<pre" in section or "<table" in section or "<ol" in section
    assert len(re.findall(r"\b(?:fab|setup|railhead|pulumi)\b|--\w", section)) >= 2


def links_within(path: Path) -> str:
    """The page, with links to its sections that other pages spell with its name."""
    text = "".join(page.read_text() for page in DOCS.glob("*.md") if page != path)
    inside = re.findall(rf"\]\({re.escape(path.name)}(#[\w-]+)\)", text)
    return path.read_text() + "".join(f"](#{one[1:]})" for one in inside)


def test_every_page_is_in_the_navigation_and_in_llms_txt(built: Path) -> None:
    listed = {page.file for pages in site.sections().values() for page in pages}
    assert listed == {path.name for path in DOCS.glob("*.md")} - {"index.md"} | {"changelog.md"}
    text = (built / "llms.txt").read_text()
    for link in re.findall(r"\]\(([\w-]+/)\)", text):
        assert (built / link / "index.html").exists(), link
    assert len(re.findall(r"^- \[", text, re.MULTILINE)) == len(listed)


def test_the_front_page_has_the_picture_and_the_reasons(built: Path) -> None:
    page = (built / "index.html").read_text()
    picture = re.search(r'<img[^>]+src="([^"]+)"', page)
    assert picture and (built / picture[1]).exists()
    reasons = (ROOT / "README.md").read_text().partition("## Why\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"<strong>", page)) >= reasons.count("* **") > 3


def test_the_site_has_a_light_and_a_dark_mode_and_follows_the_system(built: Path) -> None:
    page = (built / "index.html").read_text()
    schemes = re.findall(r'data-md-color-media="([^"]*)" data-md-color-scheme="([^"]*)"', page)
    assert dict(schemes) == {
        "(prefers-color-scheme)": "default",
        "(prefers-color-scheme: light)": "default",
        "(prefers-color-scheme: dark)": "slate",
    }


def test_the_pages_load_nothing_from_another_site(built: Path) -> None:
    for path in built.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', path.read_text()
        )
        assert loaded == [], path


def test_blocks_of_commands_are_blocks_on_the_site(built: Path) -> None:
    text = (built / "troubleshooting" / "index.html").read_text()
    assert "```" not in text and text.count("<pre") >= 4


def test_a_link_that_leads_nowhere_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = tmp_path / "docs"
    pages.mkdir()
    for path in DOCS.glob("*.md"):
        (pages / path.name).write_text(path.read_text())
    (pages / "keras.md").write_text("# Keras\n\n[there](data.md#nothing-has-this-name)\n")
    monkeypatch.setattr("pages.site.DOCS", pages)
    with pytest.raises(RailheadError, match="nothing-has-this-name"):
        site.build(tmp_path / "site")
