"""From a resource's inputs, as Pulumi has them, to the REST request that makes it.

Every input is taken out on the way: one that is left over is unknown here, and an error. The
names are the real provider's (pulumi-gcp 10, which is Terraform's google provider).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .discovery import Request, Wrong

Inputs = Mapping[str, Any]


class Taken:
    """Inputs from which each may be taken once."""

    def __init__(self, inputs: Any, where: str) -> None:
        if not isinstance(inputs, Mapping):
            raise Wrong(f"{where}: {inputs!r} is not an object")
        self.left = dict(inputs)
        self.where = where

    def take(self, name: str) -> Any:
        """The input of this name; None if there is none."""
        return self.left.pop(name, None)

    def only(self, *same: str, **names: str) -> dict[str, Any]:
        """A body's property for each input that there is: only("sameName", toName="fromName")."""
        names |= {name: name for name in same}
        values = {to: self.take(name) for to, name in names.items()}
        return {to: value for to, value in values.items() if value is not None}

    def inner(self, name: str) -> Taken:
        """An object inside, to take from it."""
        return Taken(self.take(name) or {}, f"{self.where}.{name}")

    def each(self, name: str) -> list[Taken]:
        """The objects of a list inside."""
        return [
            Taken(each, f"{self.where}.{name}[{n}]") for n, each in enumerate(self.take(name) or [])
        ]

    def done(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body, if nothing is left."""
        if self.left:
            raise Wrong(f"{self.where}: the stand-in does not know {', '.join(self.left)}")
        return body


def _network(inputs: Taken) -> Request:
    body = inputs.only("name", "description", "autoCreateSubnetworks")
    body["routingConfig"] = inputs.only("routingMode")
    project = inputs.take("project")
    return Request("compute.networks.insert", {"project": project}, inputs.done(body))


def _subnet(inputs: Taken) -> Request:
    where = {"project": inputs.take("project"), "region": inputs.take("region")}
    body = inputs.only("name", "description", "network", "ipCidrRange", "privateIpGoogleAccess")
    return Request("compute.subnetworks.insert", where, inputs.done(body))


def _firewall(inputs: Taken) -> Request:
    names = "name description network direction priority sourceRanges sourceTags targetTags"
    body = inputs.only(*names.split())
    for to, name in (("allowed", "allows"), ("denied", "denies")):
        if rules := inputs.each(name):
            body[to] = [r.done(r.only("ports", IPProtocol="protocol")) for r in rules]
    if ("allowed" in body) == ("denied" in body):
        raise Wrong(f"{inputs.where}: a rule allows, or it denies")
    if not body.get("sourceRanges") and not body.get("sourceTags"):
        raise Wrong(f"{inputs.where}: a rule without sources is open to the world")
    project = inputs.take("project")
    return Request("compute.firewalls.insert", {"project": project}, inputs.done(body))


def _instance(inputs: Taken) -> Request:
    where = {"project": inputs.take("project"), "zone": inputs.take("zone")}
    zone = f"zones/{where['zone']}"
    inputs.take("allowStoppingForUpdate")  # a word to the provider, not to Compute
    body = {
        **inputs.only("name", "labels"),
        "machineType": f"{zone}/machineTypes/{inputs.take('machineType')}",
        "guestAccelerators": [_cards(cards, zone) for cards in inputs.each("guestAccelerators")],
        "disks": [_disk(inputs.inner("bootDisk"), zone)],
        "networkInterfaces": [_interface(each) for each in inputs.each("networkInterfaces")],
        "scheduling": _scheduling(inputs.inner("scheduling")),
        "shieldedInstanceConfig": _shielded(inputs.inner("shieldedInstanceConfig")),
        "metadata": {
            "items": [{"key": k, "value": v} for k, v in (inputs.take("metadata") or {}).items()]
        },
        "tags": {"items": inputs.take("tags") or []},
    }
    if "serviceAccount" in inputs.left:
        account = inputs.inner("serviceAccount")
        body["serviceAccounts"] = [account.done(account.only("email", "scopes"))]
    return Request("compute.instances.insert", where, inputs.done(body))


def _cards(inputs: Taken, zone: str) -> dict[str, Any]:
    kind = f"{zone}/acceleratorTypes/{inputs.take('type')}"
    return inputs.done({"acceleratorType": kind, **inputs.only(acceleratorCount="count")})


def _disk(inputs: Taken, zone: str) -> dict[str, Any]:
    new = inputs.inner("initializeParams")
    params = {
        **new.only("labels", sourceImage="image"),
        "diskSizeGb": str(new.take("size")),
        "diskType": f"{zone}/diskTypes/{new.take('type')}",
    }
    body = {"boot": True, **inputs.only("autoDelete")}
    return inputs.done({**body, "initializeParams": new.done(params)})


def _interface(inputs: Taken) -> dict[str, Any]:
    body = inputs.only("subnetwork", "nicType")
    configs = inputs.each("accessConfigs")
    body["accessConfigs"] = [config.done({"type": "ONE_TO_ONE_NAT"}) for config in configs]
    return inputs.done(body)


def _scheduling(inputs: Taken) -> dict[str, Any]:
    longest, stop = inputs.inner("maxRunDuration"), inputs.inner("onInstanceStopAction")
    seconds = longest.take("seconds")
    names = "onHostMaintenance automaticRestart preemptible provisioningModel"
    body = inputs.only(*names.split(), "instanceTerminationAction")
    if seconds is not None:
        body["maxRunDuration"] = longest.done({"seconds": str(seconds)})
    if action := stop.done(stop.only("discardLocalSsd")):
        body["onInstanceStopAction"] = action
    return inputs.done(body)


def _shielded(inputs: Taken) -> dict[str, Any]:
    return inputs.done(inputs.only("enableSecureBoot", "enableVtpm", "enableIntegrityMonitoring"))


def _account(inputs: Taken) -> Request:
    inner = inputs.only("displayName", "description")
    body = {**inputs.only("accountId"), "serviceAccount": inner}
    inputs.take("createIgnoreAlreadyExists")  # a word to the provider, not to IAM
    # The rule that stands in its description only.
    if not re.fullmatch(r"(?=.{6,30}$)[a-z]([-a-z0-9]*[a-z0-9])", body["accountId"]):
        raise Wrong(f"{inputs.where}.accountId: {body['accountId']!r} is not an account's id")
    where = {"name": f"projects/{inputs.take('project')}"}
    return Request("iam.projects.serviceAccounts.create", where, inputs.done(body))


def _bucket(inputs: Taken) -> Request:
    inputs.take("forceDestroy")  # a word to the provider, not to Cloud Storage
    uniform = {"enabled": inputs.take("uniformBucketLevelAccess")}
    kept = inputs.inner("softDeletePolicy")
    seconds = str(kept.take("retentionDurationSeconds"))
    versions = inputs.inner("versioning")
    body = {
        **inputs.only("name", "location", "labels", "storageClass"),
        "iamConfiguration": {
            "uniformBucketLevelAccess": uniform,
            **inputs.only("publicAccessPrevention"),
        },
        "softDeletePolicy": kept.done({"retentionDurationSeconds": seconds}),
        "versioning": versions.done(versions.only("enabled")),
        "lifecycle": {"rule": [_lifecycle(rule) for rule in inputs.each("lifecycleRules")]},
    }
    project = inputs.take("project")
    return Request("storage.buckets.insert", {"project": project}, inputs.done(body))


def _lifecycle(inputs: Taken) -> dict[str, Any]:
    action, when = inputs.inner("action"), inputs.inner("condition")
    condition = when.only("daysSinceNoncurrentTime", "daysSinceCustomTime", "age")
    if state := when.take("withState"):
        condition["isLive"] = {"LIVE": True, "ARCHIVED": False}[state]
    return inputs.done(
        {"action": action.done(action.only("type")), "condition": when.done(condition)}
    )


def _member(inputs: Taken) -> Request:
    where = inputs.only("bucket")
    binding = {"role": inputs.take("role"), "members": [inputs.take("member")]}
    body: dict[str, Any] = {"bindings": [binding]}
    if condition := inputs.take("condition"):
        binding["condition"] = condition
        body["version"] = 3  # Google takes conditions in no earlier one
    return Request("storage.buckets.setIamPolicy", where, inputs.done(body))


REQUESTS: Mapping[str, Callable[[Taken], Request]] = {
    "gcp:compute/network:Network": _network,
    "gcp:compute/subnetwork:Subnetwork": _subnet,
    "gcp:compute/firewall:Firewall": _firewall,
    "gcp:compute/instance:Instance": _instance,
    "gcp:serviceaccount/account:Account": _account,
    "gcp:storage/bucket:Bucket": _bucket,
    "gcp:storage/bucketIAMMember:BucketIAMMember": _member,
}


def request(kind: str, inputs: Inputs, where: str) -> Request:
    """The request that makes a resource of this type. Wrong: it is not known here."""
    if kind not in REQUESTS:
        raise Wrong(f"{where}: the stand-in does not know {kind}")
    return REQUESTS[kind](Taken(inputs, where))
