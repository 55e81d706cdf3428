"""What moto lacks of AWS, added to it: quotas, placement groups, p3 types, images' names, and the
simulation of policies.

`add()` once per process; `Extra` is what a test can set: quotas, stock, who sells what.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from moto.core import responses
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.core.utils import method_names_from_class, utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import instance_types as types
from moto.ec2.responses import EC2Response
from moto.iam.exceptions import IAMException
from moto.iam.responses import IamResponse
from moto.s3.models import FakeBucket
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.ssm.models import Parameter, ParameterDict
from standins.aws import evaluation, refusals

QUOTAS = {
    "L-417A185B": "Running On-Demand P instances",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
VPCS = "L-F678F1CE"
V100S = {"p3.2xlarge": (8, 1), "p3.8xlarge": (32, 4), "p3.16xlarge": (64, 8)}
IMAGE_SIZES = {"ami-0123456789abcdef0": 75, "ami-0fedcba9876543210": 75}
_DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-"
_UBUNTU = "/aws/service/canonical/ubuntu/server/"
# The public parameters that AWS has, of all that one could think of.
IMAGES = (
    f"{_DLAMI}22.04/latest/ami-id",
    f"{_DLAMI}24.04/latest/ami-id",
    f"{_UBUNTU}22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
    f"{_UBUNTU}24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
)


@dataclass
class Extra:
    """The state of the additions, which a test sets."""

    quotas: dict[str, float] = field(default_factory=lambda: dict.fromkeys(QUOTAS, 256.0))
    requests: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)  # the group of an instance
    vpcs: float = 5.0  # the quota of a region
    denied: set[str] = field(default_factory=set)  # actions that the caller's policies deny
    by_organization: set[str] = field(default_factory=set)  # actions that an SCP denies
    no_simulation: bool = False  # the caller may not simulate policies
    retired: set[str] = field(default_factory=set)  # types that no zone sells
    public_access: str = "off"  # what VPC Block Public Access blocks
    demanded: set[str] = field(default_factory=set)  # keys of tags in each launch
    disk_key: str = "alias/aws/ebs"  # the default key of the account's disks
    image: str = "ami-0123456789abcdef0"  # what every public parameter of an image says
    images: dict[str, int] = field(default_factory=lambda: dict(IMAGE_SIZES))  # id and GB


extra = Extra()


def reset() -> None:
    """As at the start."""
    extra.__dict__.update(Extra().__dict__)


@cache
def add() -> None:
    """Add all to moto, once."""
    _add_types()
    _add_quotas()
    _add_images()
    _put(IamResponse, simulate_principal_policy=_simulate)
    _put(EC2Response, create_placement_group=_create_group, delete_placement_group=_delete_group)
    _put(EC2Response, describe_placement_groups=_describe_groups)
    _put(EC2Response, describe_vpc_block_public_access_options=_public_access)
    _put(EC2Response, get_ebs_default_kms_key_id=_disk_key)
    _heed_tls()
    refusals.add(lambda: extra.demanded)
    # Each request lists the methods of the service's class: 300 of EC2's.
    vars(responses)["method_names_from_class"] = cache(method_names_from_class)


def _put(target: type, **methods: Callable[..., Any]) -> None:
    """Add methods to a class of moto, or replace them."""
    for name, method in methods.items():
        setattr(target, name, method)


# --- Types of machines that moto's lists do not have ------------------------------------------


def _add_types() -> None:
    for name, (vcpus, cards) in V100S.items():
        like = copy.deepcopy(types.INSTANCE_TYPES["g4dn.xlarge"])
        like["InstanceType"] = name
        like["VCpuInfo"].update(DefaultVCpus=vcpus, DefaultCores=vcpus // 2)
        like["GpuInfo"]["Gpus"][0].update(Count=cards, Name="V100")
        types.INSTANCE_TYPES[name] = like
        types.InstanceTypeBackend.instance_types.append(types.InstanceType(name))
        for regions in types.INSTANCE_TYPE_OFFERINGS.values():
            for rows in regions.values():
                sold = [row for row in rows if row["InstanceType"] == "g4dn.xlarge"]
                rows += [{**row, "InstanceType": name} for row in sold]
    offered = types.InstanceTypeOfferingBackend.describe_instance_type_offerings

    def describe(*args: Any, **options: Any) -> Any:
        return [
            row for row in offered(*args, **options) if row["InstanceType"] not in extra.retired
        ]

    _put(types.InstanceTypeOfferingBackend, describe_instance_type_offerings=describe)


# --- Service Quotas ---------------------------------------------------------------------------


def _add_quotas() -> None:
    _put(
        ServiceQuotasResponse,
        get_service_quota=_get_quota,
        request_service_quota_increase=_request_quota,
        list_requested_service_quota_change_history_by_quota=_requests,
    )


def _quota(code: str) -> dict[str, Any]:
    if code == VPCS:
        return {"ServiceCode": "vpc", "QuotaCode": code, "Value": extra.vpcs}
    if code not in QUOTAS:
        raise NoSuchResource
    arn = f"arn:aws:servicequotas:us-east-1:123456789012:ec2/{code}"
    named = {"ServiceCode": "ec2", "QuotaCode": code, "QuotaName": QUOTAS[code], "QuotaArn": arn}
    return {**named, "Value": extra.quotas[code], "Adjustable": True, "GlobalQuota": False}


def _get_quota(self: Any) -> str:
    return json.dumps({"Quota": _quota(json.loads(self.body)["QuotaCode"])})


def _request_quota(self: Any) -> str:
    query = json.loads(self.body)
    quota = _quota(query["QuotaCode"])
    if query["DesiredValue"] <= quota["Value"]:
        raise JsonRESTError("IllegalArgumentException", "must be above today's value")
    request = {
        **{key: quota[key] for key in ("ServiceCode", "QuotaCode", "QuotaName", "QuotaArn")},
        "Id": f"request-{len(extra.requests) + 1}",
        "DesiredValue": query["DesiredValue"],
        "Status": "PENDING",
    }
    extra.requests.append(request)
    return json.dumps({"RequestedQuota": request})


def _requests(self: Any) -> str:
    code = json.loads(self.body)["QuotaCode"]
    return json.dumps({"RequestedQuotas": [r for r in extra.requests if r["QuotaCode"] == code]})


# --- Policies ---------------------------------------------------------------------------------


class NoSimulation(IAMException):
    code = "AccessDenied"


def _simulate(self: Any) -> Any:
    """As IAM's model has it. The roles of a stack are evaluated. To a person moto grants
    everything; a test names what is denied."""
    if extra.no_simulation:
        raise NoSimulation("User is not authorized to perform: iam:SimulatePrincipalPolicy")
    who = self._get_param("PolicySourceArn")
    assert who.startswith("arn:aws:iam::"), "not of a session"
    if ":role/railhead-" in who:
        return _simulate_role(self, who.rpartition("/")[2])
    denied = extra.denied | extra.by_organization
    return ActionResult(
        {
            "EvaluationResults": [
                {
                    "EvalActionName": name,
                    "EvalResourceName": "*",
                    "EvalDecision": "implicitDeny" if name in denied else "allowed",
                    "OrganizationsDecisionDetail": {
                        "AllowedByOrganizations": name not in extra.by_organization
                    },
                }
                for name in self._get_param("ActionNames")
            ],
            "IsTruncated": False,
        }
    )


def _simulate_role(self: Any, name: str) -> Any:
    """For one resource. NoSuchEntity where there is no such role."""
    (resource,) = self._get_param("ResourceArns")
    entries = self._get_param("ContextEntries", [])
    context = {entry["ContextKeyName"]: entry["ContextKeyValues"][0] for entry in entries}
    role = self.backend.get_role(name)
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": evaluation.decision(role, action, resource, context),
        }
        for action in self._get_param("ActionNames")
    ]
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


# --- Placement groups -------------------------------------------------------------------------


def _create_group(self: Any) -> Any:
    name = self._get_param("GroupName")
    if name in extra.groups:
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"{name} exists")
    tags = self._parse_tag_specification().get("placement-group", {})
    made = {
        "GroupName": name,
        "Strategy": self._get_param("Strategy"),
        "State": "available",
        "GroupId": f"pg-{len(extra.groups) + 1:017x}",
        "GroupArn": f"arn:aws:ec2:{self.region}:123456789012:placement-group/{name}",
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    extra.groups[name] = made
    return ActionResult({"PlacementGroup": made})


def _describe_groups(self: Any) -> Any:
    names = self._get_param("GroupNames", []) or list(extra.groups)
    for name in names:
        if name not in extra.groups:
            raise EC2ClientError("InvalidPlacementGroup.Unknown", f"{name} is unknown")
    filters = self._get_param("Filters", [])
    here = f":{self.region}:"
    groups = [extra.groups[name] for name in names if here in extra.groups[name]["GroupArn"]]
    return ActionResult(
        {"PlacementGroups": [g for g in groups if all(_passes(g, each) for each in filters)]}
    )


def _passes(group: dict[str, Any], condition: dict[str, Any]) -> bool:
    """Whether a placement group passes a filter: `tag-key`, or `tag:KEY`."""
    if condition["Name"] == "tag-key":
        return any(tag["Key"] in condition["Values"] for tag in group["Tags"])
    key = condition["Name"].removeprefix("tag:")
    return any(tag["Key"] == key and tag["Value"] in condition["Values"] for tag in group["Tags"])


def _delete_group(self: Any) -> Any:
    extra.groups.pop(self._get_param("GroupName"), None)
    return ActionResult({})


# --- What an account forbids -------------------------------------------------------------------


def _public_access(self: Any) -> Any:
    mode = {"InternetGatewayBlockMode": extra.public_access, "AwsRegion": self.region}
    return ActionResult({"VpcBlockPublicAccessOptions": mode})


def _disk_key(self: Any) -> Any:
    return ActionResult({"KmsKeyId": extra.disk_key})


# --- Images by name, and policies that ask for TLS --------------------------------------------


def _add_images() -> None:
    load: Callable[..., None] = ParameterDict._check_loading_status

    def check(self: Any, key: str) -> None:
        load(self, key)
        if key in IMAGES:
            dict.__setitem__(self, key, [_image(self, key)])

    _put(ParameterDict, _check_loading_status=check)


def _image(where: Any, key: str) -> Parameter:
    return Parameter(  # type: ignore[abstract]  # moto makes it so itself
        account_id=where.account_id,
        name=key,
        value=extra.image,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=utcnow(),
        version=1,
        data_type="aws:ec2:image",
    )


def _heed_tls() -> None:
    """moto refuses all by a Deny whatever its Condition says. Ours asks for TLS: we pretend it."""
    permitted = FakeBucket.get_permission

    def permission(self: Any, action: str, resource: str) -> Any:
        if self.policy is not None and b"aws:SecureTransport" in self.policy:
            kept, self.policy = self.policy, None
            try:
                return permitted(self, action, resource)
            finally:
                self.policy = kept
        return permitted(self, action, resource)

    _put(FakeBucket, get_permission=permission)
