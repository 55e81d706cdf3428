"""An endpoint from Python: what is sent, what comes back, and connections that break."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from e2e.local_hosts import wait_until
from hosts.operator import Cluster
from PIL import Image
from standins.served_model import ServedModel, pictures, signature

import railhead
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.serving.calls import rest, samples
from bootstrap.serving.calls.rest import Broken, Metadata, Tensor
from bootstrap.serving.records import save
from bootstrap.ssh.session import Session
from bootstrap.untrusted import decode
from bootstrap.untrusted.unpack import Hostile
from bootstrap.workflows import endpoint as endpoints
from bootstrap.workflows import serving
from railhead.documents.serving.endpoint import Deployed
from training.serving.signature import Tensor as Served

PAIR = signature(
    {"a": Served("a", "float32", (None, 2)), "b": Served("b", "int64", (None,))},
    {"sum": Served("sum", "float32", (None,)), "twice": Served("twice", "int64", (None,))},
)
SQUARE = [[0.0, 1.0], [0.5, 0.25]]


@pytest.fixture
def model() -> Iterator[ServedModel]:
    """A model that doubles pictures."""
    model = ServedModel(pictures(), lambda arrays: {"y": arrays["x"] * 2})
    yield model
    model.close()


@pytest.fixture
def pair() -> Iterator[ServedModel]:
    """A model with two inputs and two outputs."""
    model = ServedModel(
        PAIR, lambda arrays: {"sum": arrays["a"].sum(1) + arrays["b"], "twice": arrays["b"] * 2}
    )
    yield model
    model.close()


class Opened:
    """Stands for the way to the host: an endpoint of this machine; counts how often it is taken."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.model: ServedModel | None = None
        self.times = self.open = 0
        patch.setattr(serving, "serving_place", self.serving_place)

    @contextmanager
    def serving_place(self, name: str) -> Iterator[Any]:
        assert self.model
        self.times, self.open = self.times + 1, self.open + 1
        yield (
            Deployed(name, None, "here", self.model.port, None),
            SimpleNamespace(session=self.model.session),
        )
        self.open -= 1

    def of(self, model: ServedModel) -> railhead.Endpoint:
        self.model = model
        return railhead.Endpoint("m")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def test_arrays_come_back_as_arrays_and_lists_as_lists(opened: Opened, model: ServedModel) -> None:
    endpoint = opened.of(model)
    batch = np.array([SQUARE, SQUARE])[..., None]
    answer = endpoint.predict(batch)
    assert answer.dtype == np.float32 and np.array_equal(answer, (batch * 2).astype(np.float32))
    assert endpoint.predict(batch.tolist()) == (batch * 2).tolist()
    assert (opened.times, len(model.connections)) == (1, 1), "one connection for all calls"
    endpoint.close()
    assert opened.open == 0
    assert len(endpoint.predict(batch)) == 2 and opened.times == 2


def test_a_model_with_named_inputs_gets_its_columns(opened: Opened, pair: ServedModel) -> None:
    endpoint = opened.of(pair)
    inputs = {"a": np.array([[1.0, 2.0], [3, 4]]), "b": [10, 20]}
    predicted = endpoint.predict(inputs)
    assert {name: (array.tolist(), str(array.dtype)) for name, array in predicted.items()} == {
        "sum": ([13.0, 27.0], "float32"), "twice": ([20, 40], "int64"),
    }  # fmt: skip
    assert pair.predictions == [{"inputs": {"a": [[1, 2], [3, 4]], "b": [10, 20]}}]
    lists = endpoint.predict({"a": [[1.0, 2.0]], "b": [10]})
    assert lists == {"sum": [13.0], "twice": [20]}
    for wrong in ({"a": [[1.0, 2.0]]}, {"a": [1], "c": [1]}, [[1.0, 2.0]]):
        with pytest.raises(UsageError, match="model (takes a, b|has 2 inputs)"):
            endpoint.predict(wrong)


@pytest.mark.parametrize("shape", [(), None])
def test_one_number_is_sent_to_a_model_without_rows(
    opened: Opened, shape: tuple[()] | None
) -> None:
    tensors = {name: Served(name, "float32", shape) for name in ("x", "y")}
    inputs, outputs = ({name: tensors[name]} for name in ("x", "y"))
    with contextlib.closing(
        ServedModel(signature(inputs, outputs), lambda arrays: {"y": arrays["x"] * 2})
    ) as model:
        endpoint = opened.of(model)
        assert endpoint.predict(np.float32(1.5)) == 3.0
        assert model.predictions == [{"inputs": 1.5}]
        if shape is None:  # any shape fits
            assert endpoint.predict([[1.5, 2.5]]) == [[3.0, 5.0]]
            return
        with pytest.raises(UsageError, match=r"expected the shape \[\], got \[1, 2\]"):
            endpoint.predict([[1.5, 2.5]])


def test_rows_of_a_model_with_several_outputs_become_arrays() -> None:
    outputs = Metadata.read(json.loads(metadata_of(PAIR))).signature
    rows = [{"sum": 1.5, "twice": 2}, {"sum": 2.5, "twice": 4}]
    arrays = samples.arrays_of(rows, outputs)
    assert (arrays["sum"].tolist(), arrays["twice"].tolist()) == ([1.5, 2.5], [2, 4])


def metadata_of(served: Any) -> bytes:
    from training.serving.rest import metadata_response

    return metadata_response("m", 7, [served])


def test_the_signature_and_the_version_are_those_that_serve(
    opened: Opened, pair: ServedModel
) -> None:
    endpoint = opened.of(pair)
    assert endpoint.version == 1
    assert endpoint.signature.inputs == {
        "a": Tensor("float32", (None, 2)), "b": Tensor("int64", (None,)),
    }  # fmt: skip
    pair.version = 2
    assert endpoint.version == 2 and opened.times == 1


def test_a_new_version_with_another_signature_is_noticed(
    opened: Opened, model: ServedModel
) -> None:
    endpoint = opened.of(model)
    endpoint.predict([SQUARE])
    model.signature = pictures(3)
    assert len(endpoint.predict(np.zeros((1, 3, 3)))[0]) == 3
    with pytest.raises(UsageError, match=r"expected the shape \[-1, 3, 3, 1\], got \[1, 2, 2\]"):
        endpoint.predict([SQUARE])


def test_arrays_have_the_types_of_the_model_that_has_answered(
    opened: Opened, model: ServedModel
) -> None:
    """Not of the one before it, which had another signature."""
    endpoint = opened.of(model)
    assert endpoint.predict(np.zeros((1, 2, 2))).dtype == np.float32
    shape = (None, 3, 3, 1)
    model.signature = signature(
        {"x": Served("x", "float32", shape)}, {"y": Served("y", "int64", shape)}
    )
    model.function = lambda arrays: {"y": arrays["x"].astype("int64")}
    assert endpoint.predict(np.zeros((1, 3, 3))).dtype == np.int64


def test_many_samples_are_sent_in_parts(
    opened: Opened, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "ROWS", 3)
    batch = np.arange(32, dtype=np.float32).reshape(8, 2, 2, 1)
    assert np.array_equal(opened.of(model).predict(batch), batch * 2)
    assert [len(sent["instances"]) for sent in model.predictions] == [3, 3, 2]
    monkeypatch.setattr(endpoints, "BYTES", 100)
    assert [len(rows) for rows in endpoints.parts([[0.5] * 9] * 4)] == [2, 2]
    assert endpoints.parts([[0.5] * 99]) == [[[0.5] * 99]], "a sample is never cut"


@pytest.mark.parametrize("value", [[[1], [2, 3]], [{}], None, {"x": [{}]}])
def test_what_is_not_an_array_is_refused_before_a_connection(
    opened: Opened, model: ServedModel, value: Any
) -> None:
    with pytest.raises(UsageError, match="the samples are not an array of numbers"):
        opened.of(model).predict(value)
    assert opened.times == 0


def test_a_file_is_sent_as_the_model_takes_it(
    opened: Opened, model: ServedModel, tmp_path: Path
) -> None:
    endpoint = opened.of(model)
    Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).save(tmp_path / "x.png")
    np.save(tmp_path / "x.npy", np.full((2, 2), 255, np.uint8))
    assert endpoint.predict(tmp_path / "x.png") == [[[[0], [2]], [[2], [0]]]]
    assert endpoint.predict(str(tmp_path / "x.npy")) == [[[[2], [2]], [[2], [2]]]]
    for name in ("x.gif", "none.png"):
        with pytest.raises(UsageError):
            endpoint.predict(tmp_path / name)


def test_a_refusal_is_the_users_mistake_and_keeps_the_connection(
    opened: Opened, model: ServedModel
) -> None:
    endpoint = opened.of(model)
    with pytest.raises(UsageError, match="refused with 400: expected finite numbers, got NaN"):
        endpoint.predict(np.full((1, 2, 2, 1), np.nan))
    assert len(endpoint.predict([SQUARE])) == 1 and len(model.connections) == 1
    model.status, model.answer = 503, b'{"error": "busy \\u001b[2J"}'
    with pytest.raises(RailheadError, match=r"refused with 503: busy$") as caught:
        endpoint.predict([SQUARE])
    assert not isinstance(caught.value, UsageError)


# --- Connections that break ------------------------------------------------------------------


def test_a_connection_that_the_server_closed_while_idle_is_opened_again(
    opened: Opened, model: ServedModel
) -> None:
    endpoint = opened.of(model)
    endpoint.predict([SQUARE])
    model.disconnect()
    assert len(endpoint.predict([SQUARE])) == 1
    assert opened.times == 1, "the way to the host stays"


@pytest.mark.parametrize(("broken", "answered", "times"), [(2, True, 2), (3, False, 2)])
def test_the_way_to_the_host_is_opened_again_once(
    opened: Opened, model: ServedModel, broken: int, answered: bool, times: int
) -> None:
    """The first two fail on the old connection and on another one to the same host."""
    endpoint = opened.of(model)
    endpoint.predict([SQUARE])
    model.broken = broken
    if answered:
        assert len(endpoint.predict([SQUARE])) == 1
    else:
        with pytest.raises(Broken, match="endpoint m does not answer"):
            endpoint.predict([SQUARE])
        assert opened.open == 0
    assert opened.times == times


@pytest.mark.parametrize(
    ("module", "limit", "value", "error", "message"),
    [
        (rest, "SECONDS", 0.0, RailheadError, "did not answer within 0 s"),
        (decode, "OUTPUTS", 10, Hostile, "too many values"),
    ],
)
def test_an_answer_has_limits_of_time_and_of_values(
    opened: Opened,
    model: ServedModel,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    limit: str,
    value: float,
    error: type[RailheadError],
    message: str,
) -> None:
    endpoint = opened.of(model)
    endpoint.predict([SQUARE])
    with monkeypatch.context() as patch, pytest.raises(error, match=message):
        patch.setattr(module, limit, value)
        endpoint.predict([SQUARE])


GOOD = json.loads(metadata_of(pictures()))


def changed(**more: Any) -> bytes:
    return json.dumps({**GOOD, **more}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"[]", b"{", b"{}", b"[" * 100_000, changed(model_spec=None),
        changed(model_spec={"version": "1" * 400}), changed(model_spec={"version": "-1"}),
        changed(metadata={"signature_def": []}),
        json.dumps(GOOD).replace('"size": "2"', '"size": []').encode(),
        json.dumps(GOOD).replace('"size": "2"', '"size": "x"').encode(),
        json.dumps(GOOD).replace('"inputs": {', '"inputs": {}, "other": {').encode(),
    ],
)  # fmt: skip
def test_metadata_that_are_not_valid_are_an_error_of_ours(
    opened: Opened, model: ServedModel, answer: bytes
) -> None:
    model.answer = answer
    with pytest.raises(Hostile):
        _ = opened.of(model).signature


@pytest.mark.parametrize(
    "answer",
    [b"{}", b'{"predictions": 1}', b'{"predictions": []}', b'{"predictions": [[1, 2], "x"]}'],
)
def test_predictions_that_are_not_valid_are_an_error_of_ours(
    opened: Opened, model: ServedModel, answer: bytes
) -> None:
    endpoint = opened.of(model)
    endpoint.predict([SQUARE])
    model.answer = answer
    with pytest.raises(Hostile):
        endpoint.predict(np.array([SQUARE, SQUARE]))


def test_what_is_not_finite_is_an_output(opened: Opened, model: ServedModel) -> None:
    model.function = lambda arrays: {"y": np.where(arrays["x"] > 0, np.inf, np.nan)}
    predicted = opened.of(model).predict(np.array([SQUARE]))
    assert np.isnan(predicted[0, 0, 0]) and np.isinf(predicted[0, 0, 1])


def test_an_answer_of_any_size_is_not_read(
    opened: Opened, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MOST_ANSWER", 3 * rest.PIECE)
    model.answer = b" " * (4 * rest.PIECE)  # no piece of it is too long
    with pytest.raises(Hostile, match="an answer of more than"):
        _ = opened.of(model).version


# --- Over SSH --------------------------------------------------------------------------------


def test_calls_go_through_the_connection_with_the_host(
    session: Session, one_host: Cluster, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real sshd and agent; the state of the endpoint is on the host."""

    def noted(session: Session, *args: Any) -> Any:
        transports.append(session.connection)
        return client(session, *args)

    transports: list[Any] = []
    client = rest.client
    monkeypatch.setattr(rest, "client", noted)
    folder = one_host.machines[0].home / ".railhead/endpoints/m"
    folder.mkdir(parents=True)
    state = {"state": "ready", "pid": 7, "heartbeat": 1.0, "until": 4e9}
    (folder / "state.json").write_text(json.dumps(state))
    save(Deployed("m", local_state.clusters()[0], "h1", model.port, None))
    endpoint = railhead.Endpoint("m")
    big = np.random.default_rng(1).random((3000, 2, 2, 1), np.float32)
    assert np.array_equal(endpoint.predict(big), big * 2)
    model.disconnect()
    assert len(endpoint.predict([SQUARE])) == 1, "a new channel of the same connection"

    assert len(transports) == 1
    transports[0].close()
    assert len(endpoint.predict([SQUARE])) == 1 and len(transports) == 2
    endpoint.close()
    wait_until(lambda: not transports[1].is_connected, 60, "the connection has ended")

    (folder / "state.json").write_text(json.dumps({**state, "state": "ended", "reason": "by hand"}))
    with pytest.raises(UsageError, match="ended: by hand"):
        endpoint.predict([SQUARE])
