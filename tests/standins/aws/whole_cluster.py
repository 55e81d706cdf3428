"""Everything that a stack makes on AWS, and what people add with its tags, in moto.

ids = whole_cluster(tags("gpu", "ann", "0a1b2c3d4e5f"))      # the ids by kind
"""

from __future__ import annotations

import json
from typing import Any

from standins.aws.account import IMAGE, REGION, client

STOP = {"Effect": "Allow", "Action": "ec2:StopInstances", "Resource": "*"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4"
RIGHTS = {"Version": "2012-10-17", "Statement": [STOP]}
Tags = dict[str, str]


def tags(cluster: str, owner: str, cluster_id: str) -> Tags:
    """The tags of a stack's resources; the stack has the name of the cluster."""
    return {
        "railhead:cluster": cluster,
        "railhead:owner": owner,
        "railhead:stack": cluster,
        "railhead:id": cluster_id,
    }


def listed(of: Tags) -> list[dict[str, str]]:
    """Tags as AWS takes them."""
    return [{"Key": key, "Value": value} for key, value in of.items()]


def spec(kind: str, of: Tags) -> list[dict[str, Any]]:
    """Tags as EC2 takes them when it creates something."""
    return [{"ResourceType": kind, "Tags": listed(of)}]


def whole_cluster(of: Tags, region: str = REGION) -> dict[str, str]:
    """Create one of each; their ids by kind."""
    ec2 = client("ec2", region)
    name = f"railhead-{of['railhead:id']}"
    made = network(ec2, of, name)
    machine = ec2.run_instances(
        ImageId=IMAGE, MinCount=1, MaxCount=1, InstanceType="g4dn.xlarge", SubnetId=made["subnet"],
        TagSpecifications=spec("instance", of),
    )["Instances"][0]["InstanceId"]  # fmt: skip
    disk = ec2.create_volume(
        Size=100, AvailabilityZone=f"{region}a", VolumeType="gp3", Throughput=250,
        TagSpecifications=spec("volume", of),
    )["VolumeId"]  # fmt: skip
    snapshot = ec2.create_snapshot(VolumeId=disk, TagSpecifications=spec("snapshot", of))
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=spec("elastic-ip", of))
    role(name, of)
    return made | {
        "machine": machine,
        "disk": disk,
        "snapshot": snapshot["SnapshotId"],
        "address": address["AllocationId"],
        "schedule": schedule(name, machine, region),
        "role": name,
        "bucket": bucket(name, of, region),
    }


def network(ec2: Any, of: Tags, name: str) -> dict[str, str]:
    """A network, keys and a placement group as a stack makes them; their ids by kind."""
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16", TagSpecifications=spec("vpc", of))
    vpc = vpc["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(
        VpcId=vpc, CidrBlock="10.77.0.0/20", TagSpecifications=spec("subnet", of)
    )["Subnet"]["SubnetId"]
    gateway = ec2.create_internet_gateway(TagSpecifications=spec("internet-gateway", of))
    gateway = gateway["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc, TagSpecifications=spec("route-table", of))
    table = table["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    group = ec2.create_security_group(
        GroupName="hosts",
        Description="hosts",
        VpcId=vpc,
        TagSpecifications=spec("security-group", of),
    )["GroupId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=vpc,
        ServiceName=f"com.amazonaws.{ec2.meta.region_name}.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[table],
        TagSpecifications=spec("vpc-endpoint", of),
    )["VpcEndpoint"]["VpcEndpointId"]
    key = {"KeyName": name, "PublicKeyMaterial": KEY.encode()}
    ec2.import_key_pair(**key, TagSpecifications=spec("key-pair", of))
    ec2.create_placement_group(
        GroupName=name, Strategy="cluster", TagSpecifications=spec("placement-group", of)
    )
    return {"network": vpc, "subnet": subnet, "internet gateway": gateway, "route table": table,
            "security group": group, "endpoint": endpoint, "key pair": name,
            "placement group": name}  # fmt: skip


def role(name: str, of: Tags) -> None:
    """A role with a policy and an instance profile."""
    iam = client("iam")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}", Tags=listed(of))
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps(RIGHTS))
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)


def schedule(role_name: str, machine: str, region: str) -> str:
    """The deadline of a machine, as a stack makes it; its id in Pulumi's state."""
    name = f"railhead-gpu-{machine}"
    client("scheduler", region).create_schedule(
        Name=name,
        ScheduleExpression="at(2031-01-01T00:00:00)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances",
            "RoleArn": f"arn:aws:iam::123456789012:role/{role_name}",
            "Input": json.dumps({"InstanceIds": [machine]}),
        },
    )
    return f"default/{name}"


def bucket(name: str, of: Tags, region: str) -> str:
    """A bucket with one object that was written twice."""
    s3 = client("s3", region)
    where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
    s3.create_bucket(Bucket=name, **({} if region == "us-east-1" else where))
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": listed(of)})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for content in (b"old", b"newer"):
        s3.put_object(Bucket=name, Key="runs/r 1/result.json", Body=content)
    return name
