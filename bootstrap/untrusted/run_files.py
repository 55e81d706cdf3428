"""The JSON files that a run's chief writes: state.json, result.json and run.json."""

from __future__ import annotations

from railhead.documents.runs.result import Result
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.state import RunState

from .decode import parsed


def read_state(text: str) -> RunState:
    """Parse state.json; Hostile if it is not valid."""
    return parsed(RunState, text, "a state.json")


def read_result(text: str) -> Result:
    """Parse result.json; Hostile if it is not valid."""
    return parsed(Result, text, "a result.json")


def read_run_document(text: str) -> RunDocument:
    """Parse run.json; Hostile if it is not valid."""
    return parsed(RunDocument, text, "a run.json")
