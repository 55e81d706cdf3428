"""The place of a stack from before its place was recorded."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from stacks import place
from stacks.cluster_id import ClusterId

HERE = {"cloud": "aws", "region": "us-east-1"}


@pytest.mark.parametrize(
    ("regions", "refused_for"),
    [
        ((), None),
        (("us-east-1",), None),
        (("us-west-2",), "us-west-2"),
        (("us-east-1", "us-west-2"), "us-west-2"),
    ],
)
def test_only_what_exists_in_another_region_refuses_a_place(
    regions: tuple[str, ...], refused_for: str | None
) -> None:
    output: Any = None
    cluster_id, looked_in = ClusterId(output, "0a1b", is_new=False), list[place.Place]()

    def existing(own_id: str, where: place.Place) -> dict[str, list[str]]:
        assert own_id == "0a1b"
        looked_in.append(where)
        return {region: [f"machine-{region}"] for region in regions}

    try:
        place._check_unrecorded(cluster_id, HERE, existing)
    except pulumi.RunError as error:
        assert refused_for and f"machine-{refused_for}" in str(error)
        assert "machine-us-east-1" not in str(error)
    else:
        assert refused_for is None
    assert looked_in == [{"cloud": "aws"}], "it is looked for in all regions"
