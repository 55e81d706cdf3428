"""What a notebook shows of a run, of an endpoint and of a page. Nothing here contacts a host."""

from __future__ import annotations

from html import escape
from pathlib import PosixPath

from ..console.charts.chart import chart
from ..console.charts.shapes import STYLE
from ..console.markup import Markup, element, joined
from ..errors import RailheadError
from ..report.facts import RunFacts, read_run
from ..report.html import pairs
from ..report.page import figures, state_of
from ..runs.metrics.plots import panels
from ..serving import records
from ..serving.calls.rest import Signature, Tensor

CHARTS = 2
HEIGHT = 700  # pixels of a page


class Page(PosixPath):
    """The path of a page, which a notebook shows as the page itself."""

    def _repr_html_(self) -> str | None:
        """The page in a frame in which nothing runs; None for another path, or without the file."""
        if self.suffix != ".html" or not self.is_file():
            return None
        page = escape(self.read_text())
        style = f"width:100%;height:{HEIGHT}px;border:0;background:#fff"
        return f'<iframe sandbox="" style="{style}" srcdoc="{page}"></iframe>'


def run_line(run_id: str) -> str:
    """A run in one line, such as `Run 2026... mine: succeeded, script train.py on a, b`."""
    try:
        facts = read_run(run_id)
    except RailheadError as error:
        return f"Run {run_id}: {error.message}"
    name = f" {facts.name}" if facts.name else ""
    on = f" on {', '.join(facts.hosts)}" if facts.hosts else ""
    return f"Run {run_id}{name}: {facts.state}, {facts.description}{on}"


def run_html(run_id: str) -> Markup:
    """The state, the figures and the curves of a run."""
    try:
        facts = read_run(run_id)
    except RailheadError as error:
        return element("div", element("b", run_id), " ", error.message)
    return joined([element("style", Markup(STYLE)), _run(facts)])


def _run(facts: RunFacts) -> Markup:
    charts = [element("div", chart(panel)) for panel in panels(facts.records)[:CHARTS]]
    return element(
        "div",
        element(
            "p", element("b", "Run ", facts.run_id), " ", state_of(facts), f", {facts.description}"
        ),
        pairs({**figures(facts), **facts.chosen, "results": str(facts.folder)}),
        element("div", *charts, style="display:flex;flex-wrap:wrap;background:#fff"),
    )


def endpoint_html(name: str, signature: Signature | None) -> Markup:
    """Where an endpoint is and, if it is already known, what its model takes and returns."""
    try:
        record = records.require(name)
    except RailheadError as error:
        return element("div", element("b", name), " ", error.message)
    sides = {"inputs": signature.inputs, "outputs": signature.outputs} if signature else {}
    tensors = {
        side: ", ".join(f"{name}: {_tensor(tensor)}" for name, tensor in tensors.items())
        for side, tensors in sides.items()
    }
    where = {"on": record.place, "port": str(record.port), "run": record.run_id or "", **tensors}
    return element("div", element("p", element("b", "Endpoint ", name)), pairs(where))


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape or ())}"
