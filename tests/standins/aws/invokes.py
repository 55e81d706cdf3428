"""What Pulumi programs ask: the invokes that the stand-in knows, by their tokens."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

from botocore.exceptions import ClientError
from standins.aws import moto_plus
from standins.aws.kinds import Aws, Inputs


def caller_identity(aws: Aws, args: Inputs) -> Inputs:
    output = aws("sts").get_caller_identity()
    account = output["Account"]
    return {"id": account, "accountId": account, "arn": output["Arn"], "userId": output["UserId"]}


def type_offerings(aws: Aws, args: Inputs) -> Inputs:
    output = aws("ec2").describe_instance_type_offerings(
        LocationType=args["locationType"], Filters=_filters(args)
    )["InstanceTypeOfferings"]
    return {
        "id": aws("ec2").meta.region_name,
        "instanceTypes": [row["InstanceType"] for row in output],
        "locations": [row["Location"] for row in output],
        "locationTypes": [row["LocationType"] for row in output],
    }


def instances(aws: Aws, args: Inputs) -> Inputs:
    requests = [
        {"Name": f"tag:{key}", "Values": [value]}
        for key, value in (args.get("instanceTags") or {}).items()
    ]
    states = args.get("instanceStateNames") or ["running"]
    requests.append({"Name": "instance-state-name", "Values": states})
    held = aws("ec2").describe_instances(Filters=requests)["Reservations"]
    found = [one for each in held for one in each["Instances"] if _passes(one, args)]
    return {
        "id": aws("ec2").meta.region_name,
        "ids": [one["InstanceId"] for one in found],
        "privateIps": [one.get("PrivateIpAddress", "") for one in found],
        "publicIps": [one.get("PublicIpAddress", "") for one in found],
        "ipv6Addresses": [],
        "instanceTags": args.get("instanceTags") or {},
    }


def _passes(one: dict[str, Any], args: Inputs) -> bool:
    """Filters that moto does not have: by patterns of the type and the name, by the lifecycle."""
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
    values = {
        "instance-id": one["InstanceId"],
        "instance-type": one.get("InstanceType", ""),
        "instance-lifecycle": one.get("InstanceLifecycle", ""),
        "tag:Name": tags.get("Name", ""),
    }
    return all(
        any(fnmatch(values[each["Name"]], text) for text in each["Values"])
        for each in _filters(args)
    )


def instance(aws: Aws, args: Inputs) -> Inputs:
    held = aws("ec2").describe_instances(InstanceIds=[args["instanceId"]])["Reservations"]
    one = held[0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
    return {"id": one["InstanceId"], "instanceType": one["InstanceType"], "tags": tags}


def instance_type(aws: Aws, args: Inputs) -> Inputs:
    output = aws("ec2").describe_instance_types(InstanceTypes=[args["instanceType"]])
    (found,) = output["InstanceTypes"]
    vcpus = found["VCpuInfo"]["DefaultVCpus"]
    return {"id": args["instanceType"], "defaultVcpus": vcpus}


def ami(aws: Aws, args: Inputs) -> Inputs:
    """Of the images that a test has: moto's own list is another one."""
    ((image,),) = [one["values"] for one in args["filters"] if one["name"] == "image-id"]
    if image not in moto_plus.extra.images:
        raise ClientError(
            {"Error": {"Code": "NotFound", "Message": "Your query returned no results."}},
            "DescribeImages",
        )
    disk = {"deviceName": "/dev/sda1", "noDevice": "", "virtualName": ""}
    size = str(moto_plus.extra.images[image])
    return {
        "id": image,
        "name": f"the image {image}",
        "architecture": "x86_64",
        "rootDeviceName": "/dev/sda1",
        "blockDeviceMappings": [{**disk, "ebs": {"volume_size": size}}],
    }


def subnets(aws: Aws, args: Inputs) -> Inputs:
    found = aws("ec2").describe_subnets(Filters=_filters(args))["Subnets"]
    return {"id": aws("ec2").meta.region_name, "ids": [one["SubnetId"] for one in found]}


def parameter(aws: Aws, args: Inputs) -> Inputs:
    found = aws("ssm").get_parameter(Name=args["name"])["Parameter"]
    names = {"name": "Name", "value": "Value", "type": "Type", "version": "Version"}
    return {"id": args["name"], **{ours: found[theirs] for ours, theirs in names.items()}}


def service_quota(aws: Aws, args: Inputs) -> Inputs:
    found = aws("service-quotas").get_service_quota(
        ServiceCode=args["serviceCode"], QuotaCode=args["quotaCode"]
    )["Quota"]
    return {
        "id": found["QuotaArn"],
        "arn": found["QuotaArn"],
        "serviceCode": found["ServiceCode"],
        "quotaCode": found["QuotaCode"],
        "quotaName": found["QuotaName"],
        "value": found["Value"],
        "adjustable": found["Adjustable"],
    }


def _filters(args: Inputs) -> list[dict[str, Any]]:
    request = args.get("filters") or []
    return [{"Name": one["name"], "Values": list(one["values"])} for one in request]


INVOKES: dict[str, Callable[[Aws, Inputs], Inputs]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": caller_identity,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": type_offerings,
    "aws:ec2/getInstances:getInstances": instances,
    "aws:ec2/getAmi:getAmi": ami,
    "aws:ec2/getInstance:getInstance": instance,
    "aws:ec2/getInstanceType:getInstanceType": instance_type,
    "aws:ec2/getSubnets:getSubnets": subnets,
    "aws:ssm/getParameter:getParameter": parameter,
    "aws:servicequotas/getServiceQuota:getServiceQuota": service_quota,
}
