"""Instances, their keys and their groups; and the schedule that stops them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from botocore.exceptions import ClientError
from standins import fields
from standins.aws import moto_plus
from standins.aws.kinds import Aws, Inputs, Kind, gone, listed, picked, spec
from standins.aws.network import OfEc2


class KeyPair(Kind):
    type, tagged, name = "aws:ec2/keyPair:KeyPair", "key-pair", "keyName"
    knows = "keyName publicKey"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        name, key = inputs["keyName"], inputs["publicKey"].encode()
        made = aws("ec2").import_key_pair(KeyName=name, PublicKeyMaterial=key, **spec(self, inputs))
        return name, {"keyPairId": made["KeyPairId"], "fingerprint": made["KeyFingerprint"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        return None if gone(lambda: aws("ec2").describe_key_pairs(KeyNames=[id])) is None else {}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        pair_id = aws("ec2").describe_key_pairs(KeyNames=[id])["KeyPairs"][0]["KeyPairId"]
        aws("ec2").create_tags(Resources=[pair_id], Tags=listed(new.get("tagsAll")))

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_key_pair(KeyName=id)


class PlacementGroup(Kind):
    type, tagged, name = "aws:ec2/placementGroup:PlacementGroup", "placement-group", "name"
    knows = "name strategy"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        options = picked(inputs, "strategy", GroupName="name")
        made = aws("ec2").create_placement_group(**options, **spec(self, inputs))["PlacementGroup"]
        return inputs["name"], {"placementGroupId": made["GroupId"], "arn": made["GroupArn"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        described = gone(lambda: aws("ec2").describe_placement_groups(GroupNames=[id]))
        return None if described is None else {}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        """moto has no tags of placement groups to change."""

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        """Refused while an instance is in it: moto does not know."""
        inside = [machine for machine, group in moto_plus.extra.placed.items() if group == id]
        filters = [
            {"Name": "instance-id", "Values": inside},
            {"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]},
        ]
        if inside and aws("ec2").describe_instances(Filters=filters)["Reservations"]:
            answer: Any = {"Error": {"Code": "InvalidPlacementGroup.InUse", "Message": "in use"}}
            raise ClientError(answer, "DeletePlacementGroup")
        aws("ec2").delete_placement_group(GroupName=id)


class Instance(OfEc2):
    type, tagged = "aws:ec2/instance:Instance", "instance"
    knows = "ami instanceType subnetId vpcSecurityGroupIds keyName iamInstanceProfile "
    knows += "placementGroup rootBlockDevice metadataOptions instanceMarketOptions "
    knows += "instanceInitiatedShutdownBehavior ebsOptimized userData"

    def described(self, aws: Aws, id: str) -> dict[str, Any] | None:
        """By filter: one that EC2 has forgotten is not an error then."""
        requests = [{"Name": "instance-id", "Values": [id]}]
        held = aws("ec2").describe_instances(Filters=requests)["Reservations"]
        machine: dict[str, Any] | None = held[0]["Instances"][0] if held else None
        return machine if machine and machine["State"]["Name"] != "terminated" else None

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        tags = listed(inputs.get("tagsAll"))
        launched = {"ResourceType": "volume", "Tags": listed(inputs.get("defaultTags"))}
        made = aws("ec2").run_instances(
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}, launched],
            **_run_parameters(inputs),
        )
        id = made["Instances"][0]["InstanceId"]
        filters = [{"Name": "attachment.instance-id", "Values": [id]}]
        (disk,) = aws("ec2").describe_volumes(Filters=filters)["Volumes"]
        later = listed(inputs["rootBlockDevice"].get("tags"))
        aws("ec2").create_tags(Resources=[disk["VolumeId"]], Tags=later)
        group = moto_plus.extra.placed[id] = inputs.get("placementGroup", "")
        return id, {**(self.read(aws, id, inputs) or {}), "placementGroup": group}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        described = self.described(aws, id)
        if described is None:
            return None
        return {
            "arn": f"arn:aws:ec2:us-east-1:123456789012:instance/{id}",
            "publicIp": described.get("PublicIpAddress", ""),
            "privateIp": described["PrivateIpAddress"],
            "availabilityZone": described["Placement"]["AvailabilityZone"],
            "instanceState": described["State"]["Name"],
            **_user_data(aws, id),
        }

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        """A change of type stops the machine, and then starts it, also one that was stopped; where
        EC2 refuses the change, it stays stopped (modifyInstanceAttributeWithStopStart)."""
        ec2, shutdown = aws("ec2"), "instanceInitiatedShutdownBehavior"
        if old.get("instanceType") != new.get("instanceType"):
            ec2.stop_instances(InstanceIds=[id])
            kind = {"Value": new["instanceType"]}
            ec2.modify_instance_attribute(InstanceId=id, InstanceType=kind)
            ec2.start_instances(InstanceIds=[id])
        if old.get(shutdown) != new.get(shutdown):
            behavior = {"Value": new[shutdown]}
            ec2.modify_instance_attribute(InstanceId=id, InstanceInitiatedShutdownBehavior=behavior)
        if profile := new.get("iamInstanceProfile"):
            _associate(ec2, id, old.get("iamInstanceProfile"), profile)
        known = {"instanceType", "rootBlockDevice", "tags", "tagsAll", "iamInstanceProfile"}
        changed = {path.split(".")[0] for path in fields.effects(self.type, old, new)}
        rest = changed - known - {shutdown}
        if rest:
            raise NotImplementedError(f"no update of {', '.join(rest)}")
        ec2.create_tags(Resources=[id], Tags=listed(new.get("tagsAll")))

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").terminate_instances(InstanceIds=[id])


def _associate(ec2: Any, id: str, old: str | None, new: str) -> None:
    """A machine that had no role gets one, as the provider does it; moto replaces none."""
    if old == new:
        return
    if old:
        raise NotImplementedError("no change from one profile to another")
    ec2.associate_iam_instance_profile(IamInstanceProfile={"Name": new}, InstanceId=id)


def _user_data(aws: Aws, id: str) -> Inputs:
    """As text, with no mark of a secret: so the provider of version 7 and later has it."""
    output = aws("ec2").describe_instance_attribute(InstanceId=id, Attribute="userData")["UserData"]
    return {"userData": b64decode(output["Value"]).decode()} if output.get("Value") else {}


def _run_parameters(inputs: Inputs) -> dict[str, Any]:
    """The parameters of RunInstances. What is not in the inputs stays the cloud's default."""
    same = "instanceType keyName subnetId instanceInitiatedShutdownBehavior ebsOptimized userData"
    named = {"ImageId": "ami", "SecurityGroupIds": "vpcSecurityGroupIds"}
    parameters = picked(inputs, *same.split(), **named)
    if "iamInstanceProfile" in inputs:
        parameters["IamInstanceProfile"] = {"Name": inputs["iamInstanceProfile"]}
    if "placementGroup" in inputs:
        parameters["Placement"] = {"GroupName": inputs["placementGroup"]}
    if "metadataOptions" in inputs:
        parameters["MetadataOptions"] = _metadata(inputs["metadataOptions"])
    if "instanceMarketOptions" in inputs:
        parameters["InstanceMarketOptions"] = _market(inputs["instanceMarketOptions"])
    parameters["BlockDeviceMappings"] = [{"DeviceName": "/dev/sda1", "Ebs": _disk(inputs)}]
    return parameters


def _disk(inputs: Inputs) -> dict[str, Any]:
    names = "volumeType volumeSize iops throughput encrypted deleteOnTermination"
    return picked(inputs["rootBlockDevice"], *names.split())


def _metadata(options: Inputs) -> dict[str, Any]:
    return picked(
        options, "httpEndpoint", "httpTokens", "httpPutResponseHopLimit", "instanceMetadataTags"
    )


def _market(options: Inputs) -> dict[str, Any]:
    spot = picked(
        options.get("spotOptions", {}), "spotInstanceType", "instanceInterruptionBehavior"
    )
    return {"MarketType": options["marketType"], "SpotOptions": spot}


class Schedule(Kind):
    type = "aws:scheduler/schedule:Schedule"
    knows = "name description scheduleExpression scheduleExpressionTimezone flexibleTimeWindow "
    knows += "actionAfterCompletion target"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("scheduler").create_schedule(**_schedule(inputs))
        return f"default/{inputs['name']}", {"arn": made["ScheduleArn"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        try:
            schedule = aws("scheduler").get_schedule(Name=id.removeprefix("default/"))
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
        return {"arn": schedule["Arn"], "scheduleExpression": schedule["ScheduleExpression"]}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        aws("scheduler").update_schedule(**_schedule(new))

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("scheduler").delete_schedule(Name=state["name"])


def _schedule(inputs: Inputs) -> dict[str, Any]:
    target = picked(inputs["target"], "arn", "roleArn", "input")
    names = "name description scheduleExpression scheduleExpressionTimezone actionAfterCompletion"
    options = picked(inputs, *names.split())
    window = {"Mode": inputs["flexibleTimeWindow"]["mode"]}
    return {**options, "Target": target, "FlexibleTimeWindow": window}


KINDS = (KeyPair(), PlacementGroup(), Instance(), Schedule())
