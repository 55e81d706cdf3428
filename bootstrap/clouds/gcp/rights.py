"""The rights that Railhead needs on Google Cloud: for each type of resource, and for each call.

Their names are those of IAM permissions. Source: the permissions reference of Google Cloud, and the
REST methods that Pulumi's provider and `fab` call.
"""

from __future__ import annotations

from railhead.documents.lazy import dataclass

from ..request import Part, StackRequest, with_bucket, with_own_network, with_quota_request

# By the class of pulumi-gcp.
RESOURCES: dict[str, Part] = {
    "compute.Instance": Part(
        "compute.instances.create compute.instances.get compute.instances.list"
        " compute.instances.delete compute.instances.start compute.instances.stop"
        " compute.instances.setLabels compute.instances.setMetadata compute.instances.setTags"
        " compute.instances.setMachineType compute.instances.setScheduling"
        " compute.instances.setServiceAccount compute.disks.create compute.disks.get"
        " compute.disks.setLabels compute.subnetworks.use compute.subnetworks.useExternalIp"
        " compute.zones.get compute.zoneOperations.get"
    ),
    "compute.Network": Part(
        "compute.networks.create compute.networks.delete", when=with_own_network
    ),
    "compute.Subnetwork": Part(
        "compute.subnetworks.create compute.subnetworks.get compute.subnetworks.delete"
        " compute.regionOperations.get",
        when=with_own_network,
    ),
    "compute.Firewall": Part(
        "compute.firewalls.create compute.firewalls.get compute.firewalls.update"
        " compute.firewalls.delete compute.networks.updatePolicy compute.globalOperations.get"
    ),
    "serviceaccount.Account": Part(
        "iam.serviceAccounts.create iam.serviceAccounts.get iam.serviceAccounts.delete"
        " iam.serviceAccounts.actAs",
        when=with_bucket,
    ),
    "storage.Bucket": Part(
        "storage.buckets.create storage.buckets.get storage.buckets.update storage.buckets.delete",
        when=with_bucket,
    ),
    "storage.BucketIAMMember": Part(
        "storage.buckets.getIamPolicy storage.buckets.setIamPolicy", when=with_bucket
    ),
}
# A call of ours, not a resource.
QUOTAS = Part("cloudquotas.quotas.update", when=with_quota_request)
LOOKUPS = Part(
    "compute.projects.get compute.networks.get compute.regions.get compute.zones.list"
    " compute.acceleratorTypes.list compute.machineTypes.list compute.images.get"
    " compute.images.getFromFamily cloudquotas.quotas.get serviceusage.services.get"
    # Each request names the project that pays for it. An image may be one of the project.
    " serviceusage.services.use compute.images.useReadOnly"
)
# By the method of the discovery documents. Most have the name of their permission; `""`: none is
# needed on the project.
_SAME_NAME = (
    "compute.instances.get compute.instances.start compute.instances.stop compute.instances.delete"
    " compute.instances.setScheduling compute.instances.getGuestAttributes compute.disks.get"
    " compute.zoneOperations.get compute.firewalls.list compute.projects.get"
)
CALLS = {name: name for name in _SAME_NAME.split()} | {
    "compute.instances.aggregatedList": "compute.instances.list",
    "cloudresourcemanager.projects.testIamPermissions": "",
    "cloudresourcemanager.projects.getEffectiveOrgPolicy": "",
    "orgpolicy.projects.policies.getEffectivePolicy": "",
}
# Only for `fab doctor`: a stack does not need it.
BESIDES = ("orgpolicy.policy.get",)
_OBJECTS = Part(
    "storage.objects.create storage.objects.get storage.objects.list storage.objects.delete",
    when=with_bucket,
)


def names(request: StackRequest | None) -> tuple[str, ...]:
    """The permissions that a stack needs, sorted; all without a stack."""
    calls = Part(" ".join(CALLS.values()))
    parts = (*RESOURCES.values(), QUOTAS, LOOKUPS, calls, _OBJECTS)
    return tuple(sorted({name for part in parts if part.is_needed(request) for name in part.names}))


@dataclass(frozen=True)
class Role:
    """A custom role; the fields have Google's names."""

    includedPermissions: tuple[str, ...]
    title: str = "Railhead"
    description: str = "Create and delete the machines, networks and buckets of stacks"
    stage: str = "GA"


def policy(request: StackRequest | None) -> Role:
    """A custom role with all permissions, as `gcloud iam roles create --file` reads it."""
    return Role(tuple(sorted({*names(request), *BESIDES})))
