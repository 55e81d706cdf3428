"""A kind of resource as the stand-in for Pulumi's AWS provider knows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError

Inputs = dict[str, Any]
Aws = Callable[[str], Any]  # the client of a service, by its name


class Kind:
    """One type of resource. The inputs that it does not name in `knows` are errors.

    `name` is the property that the provider fills with the resource's name and a random end. What
    a change of each input does is in the table of standins/fields.py.
    """

    type: ClassVar[str]
    knows: ClassVar[str] = ""
    name: ClassVar[str] = ""
    tagged: ClassVar[str] = ""  # EC2's word for it in TagSpecifications, or any, where it has tags

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        """Make it; its id, and what the cloud has added."""
        raise NotImplementedError

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        """What the cloud adds, and inputs as it has them; None where it is gone."""
        raise NotImplementedError

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        """Change it in place; a change that is not known has to be an error."""
        changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        raise NotImplementedError(f"{self.type}: no update of {', '.join(changed)}")

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        """End it."""
        raise NotImplementedError


def gone(call: Callable[[], Any]) -> Any:
    """The answer of a call; None where AWS says that there is no such thing."""
    try:
        return call()
    except ClientError as error:
        if re.search("NotFound|NoSuch|Unknown", error.response["Error"]["Code"]):
            return None
        raise


def same_json(text: str, current: object) -> str:
    """A document as the program wrote it, if it means the same as what the cloud has."""
    return text if json.loads(text) == current else json.dumps(current)


def listed(tags: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Tags as most of AWS's calls want them."""
    return [{"Key": key, "Value": value} for key, value in sorted((tags or {}).items())]


def spec(kind: Kind, inputs: Inputs) -> dict[str, Any]:
    """Tags as EC2 wants them when it makes something."""
    tags = listed(inputs.get("tagsAll"))
    return {"TagSpecifications": [{"ResourceType": kind.tagged, "Tags": tags}]} if tags else {}


def picked(inputs: Inputs, *same: str, **names: str) -> dict[str, Any]:
    """The inputs that are there, under the names of a call: those of `same` begin with a capital
    letter there, as in picked(i, "cidrBlock", ImageId="ami")."""
    names |= {ours[0].upper() + ours[1:]: ours for ours in same}
    return {theirs: inputs[ours] for theirs, ours in names.items() if ours in inputs}
