"""`fab doctor` and the checks of `fab up`, on the real engine with moto."""

from __future__ import annotations

import json

from engine.aws import OnAws

from railhead.documents.codec import decode
from railhead.documents.doctor import Diagnosis


def test_a_missing_right_stops_an_up_before_its_preview(aws: OnAws) -> None:
    healthy = aws.stack.fab("doctor", "--stack", "g4dn", "--json").ended(0)
    diagnosis = decode(Diagnosis, json.loads(healthy.text.partition("\nfab")[0]))
    states = {check.name: check.state for check in diagnosis.checks}
    assert (
        states["preview"] == states["rights"] == states["pulumi login"] == states["price"] == "ok"
    )
    aws.cloud.extra.denied = {"ec2:RunInstances"}
    refused = aws.stack.fab("up", "--stack", "g4dn", "--yes").ended(2, "ec2:RunInstances")
    assert "fab doctor --stack g4dn" in refused.text and not aws.stack.resources()
    aws.cloud.extra.denied = set()
    aws.stack.config(count=0)
    wrong = aws.stack.fab("doctor", "--stack", "g4dn").ended(1)
    assert "next: pulumi config rm --stack g4dn count" in wrong.text
