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
    passing = [machine for each in held for machine in each["Instances"] if _passes(machine, args)]
    return {
        "id": aws("ec2").meta.region_name,
        "ids": [machine["InstanceId"] for machine in passing],
        "privateIps": [machine.get("PrivateIpAddress", "") for machine in passing],
        "publicIps": [machine.get("PublicIpAddress", "") for machine in passing],
        "ipv6Addresses": [],
        "instanceTags": args.get("instanceTags") or {},
    }


def _passes(machine: dict[str, Any], args: Inputs) -> bool:
    """Filters that moto does not have: by patterns of the type and the name, by the lifecycle."""
    tags = {tag["Key"]: tag["Value"] for tag in machine.get("Tags", ())}
    values = {
        "instance-id": machine["InstanceId"],
        "instance-type": machine.get("InstanceType", ""),
        "instance-lifecycle": machine.get("InstanceLifecycle", ""),
        "tag:Name": tags.get("Name", ""),
    }
    return all(
        any(fnmatch(values[each["Name"]], text) for text in each["Values"])
        for each in _filters(args)
    )


def instance(aws: Aws, args: Inputs) -> Inputs:
    held = aws("ec2").describe_instances(InstanceIds=[args["instanceId"]])["Reservations"]
    machine = held[0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in machine.get("Tags", ())}
    return {"id": machine["InstanceId"], "instanceType": machine["InstanceType"], "tags": tags}


def instance_type(aws: Aws, args: Inputs) -> Inputs:
    output = aws("ec2").describe_instance_types(InstanceTypes=[args["instanceType"]])
    (described,) = output["InstanceTypes"]
    vcpus = described["VCpuInfo"]["DefaultVCpus"]
    return {"id": args["instanceType"], "defaultVcpus": vcpus}


def ami(aws: Aws, args: Inputs) -> Inputs:
    """Of the images that a test has: moto's own list is another one."""
    ((image,),) = [each["values"] for each in args["filters"] if each["name"] == "image-id"]
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
    described = aws("ec2").describe_subnets(Filters=_filters(args))["Subnets"]
    return {"id": aws("ec2").meta.region_name, "ids": [subnet["SubnetId"] for subnet in described]}


def parameter(aws: Aws, args: Inputs) -> Inputs:
    described = aws("ssm").get_parameter(Name=args["name"])["Parameter"]
    names = {"name": "Name", "value": "Value", "type": "Type", "version": "Version"}
    return {"id": args["name"], **{ours: described[theirs] for ours, theirs in names.items()}}


def service_quota(aws: Aws, args: Inputs) -> Inputs:
    quota = aws("service-quotas").get_service_quota(
        ServiceCode=args["serviceCode"], QuotaCode=args["quotaCode"]
    )["Quota"]
    return {
        "id": quota["QuotaArn"],
        "arn": quota["QuotaArn"],
        "serviceCode": quota["ServiceCode"],
        "quotaCode": quota["QuotaCode"],
        "quotaName": quota["QuotaName"],
        "value": quota["Value"],
        "adjustable": quota["Adjustable"],
    }


def _filters(args: Inputs) -> list[dict[str, Any]]:
    request = args.get("filters") or []
    return [{"Name": each["name"], "Values": list(each["values"])} for each in request]


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
