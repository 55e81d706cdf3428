"""`railhead.Endpoint`: a model that an endpoint serves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.documents.rule import shortened

from ..errors import UsageError
from ..serving.calls.rest import Signature
from ..workflows import serving
from ..workflows.endpoint import OpenEndpoint
from .shown import endpoint_html
from .spelling import speaks_python


@speaks_python
@dataclass(frozen=True)
class Endpoint:
    """A served model, by its name. As a context manager it is deleted at the end. In a notebook it
    shows where it is.

    The first call opens an SSH connection to its host, and the endpoint keeps it: a later call
    costs a round trip. One that broke is opened again, once for each call.
    """

    name: str
    _open: OpenEndpoint = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise UsageError(f"{shortened(self.name)} is not an endpoint: write its name")
        object.__setattr__(self, "_open", OpenEndpoint(self.name))

    def _repr_html_(self) -> str:
        return endpoint_html(self.name, self._open.known_signature)

    def predict(self, samples: Any) -> Any:
        """The outputs of the model for samples.

        Args:
            samples: an array [batch, ...], or for a model with named inputs {input: array}; or the
                path of a file: a PNG or JPEG, .npy, .csv or .json.

        Returns:
            For NumPy arrays an array, or {output: array} of a model with several outputs. For lists
            and files lists; {output: list} where the samples have names.

        Raises:
            UsageError: the samples are not an array, the model does not take them, or the endpoint
                does not serve. RailheadError: it does not answer.
        """
        if isinstance(samples, (str, Path)):
            return self._open.predict_file(Path(samples).expanduser())
        return self._open.predict(samples)

    @property
    def signature(self) -> Signature:
        """The inputs and outputs of the model: for each its `dtype` and its `shape`."""
        return self._open.metadata().signature

    @property
    def version(self) -> int:
        """The version that serves now."""
        return self._open.metadata().version

    def close(self) -> None:
        """End the connection to the host. The endpoint serves on, and another call opens one."""
        self._open.close()

    def delete(self) -> None:
        """End the endpoint, and verify that nothing of it is left: `fab undeploy`."""
        self.close()
        serving.undeploy(self.name)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.delete()
