"""VPCs and what is in them."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError
from standins.aws.kinds import Aws, Inputs, Kind, gone, listed, picked, spec


class OfEc2(Kind):
    """What EC2 tags, and describes by id."""

    describe = ""  # the call, its argument and the list in its answer
    ids = ""
    answer = ""

    def described(self, aws: Aws, id: str) -> dict[str, Any] | None:
        try:
            described = getattr(aws("ec2"), self.describe)(**{self.ids: [id]})[self.answer]
        except ClientError as error:
            if "NotFound" in str(error):
                return None
            raise
        return described[0] if described else None

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        return None if self.described(aws, id) is None else {}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        others = {k for k in {**old, **new} if old.get(k) != new.get(k)} - {"tags", "tagsAll"}
        if others:
            super().update(aws, id, old, new)
        aws("ec2").create_tags(Resources=[id], Tags=listed(new.get("tagsAll")))


class Vpc(OfEc2):
    type, tagged = "aws:ec2/vpc:Vpc", "vpc"
    knows = "cidrBlock enableDnsHostnames enableDnsSupport"
    describe, ids, answer = "describe_vpcs", "VpcIds", "Vpcs"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("ec2").create_vpc(CidrBlock=inputs["cidrBlock"], **spec(self, inputs))
        id = made["Vpc"]["VpcId"]
        for key in ("enableDnsSupport", "enableDnsHostnames"):
            value = {"Value": bool(inputs.get(key))}
            aws("ec2").modify_vpc_attribute(VpcId=id, **{key[0].upper() + key[1:]: value})
        return id, {"arn": f"arn:aws:ec2:us-east-1:{made['Vpc']['OwnerId']}:vpc/{id}"}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_vpc(VpcId=id)


class Subnet(OfEc2):
    type, tagged = "aws:ec2/subnet:Subnet", "subnet"
    knows = "vpcId cidrBlock availabilityZone mapPublicIpOnLaunch"
    describe, ids, answer = "describe_subnets", "SubnetIds", "Subnets"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        options = picked(inputs, "vpcId", "cidrBlock", "availabilityZone")
        made = aws("ec2").create_subnet(**options, **spec(self, inputs))["Subnet"]
        public = {"Value": bool(inputs.get("mapPublicIpOnLaunch"))}
        aws("ec2").modify_subnet_attribute(SubnetId=made["SubnetId"], MapPublicIpOnLaunch=public)
        return made["SubnetId"], {"arn": made["SubnetArn"]}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_subnet(SubnetId=id)


class InternetGateway(OfEc2):
    type, tagged = "aws:ec2/internetGateway:InternetGateway", "internet-gateway"
    knows = "vpcId"
    describe, ids, answer = "describe_internet_gateways", "InternetGatewayIds", "InternetGateways"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("ec2").create_internet_gateway(**spec(self, inputs))["InternetGateway"]
        id = made["InternetGatewayId"]
        aws("ec2").attach_internet_gateway(InternetGatewayId=id, VpcId=inputs["vpcId"])
        return id, {}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").detach_internet_gateway(InternetGatewayId=id, VpcId=state["vpcId"])
        aws("ec2").delete_internet_gateway(InternetGatewayId=id)


class RouteTable(OfEc2):
    type, tagged = "aws:ec2/routeTable:RouteTable", "route-table"
    knows = "vpcId"
    describe, ids, answer = "describe_route_tables", "RouteTableIds", "RouteTables"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("ec2").create_route_table(VpcId=inputs["vpcId"], **spec(self, inputs))
        return made["RouteTable"]["RouteTableId"], {}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_route_table(RouteTableId=id)


class Route(Kind):
    type = "aws:ec2/route:Route"
    knows = "routeTableId destinationCidrBlock gatewayId"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        aws("ec2").create_route(**picked(inputs, *self.knows.split()))
        return f"r-{inputs['routeTableId']}-{inputs['destinationCidrBlock']}", {}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        table = _table(aws, inputs)
        cidrs = [route.get("DestinationCidrBlock") for route in table.get("Routes", ())]
        return {} if inputs["destinationCidrBlock"] in cidrs else None

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        options = {"RouteTableId": state["routeTableId"]}
        aws("ec2").delete_route(**options, DestinationCidrBlock=state["destinationCidrBlock"])


class RouteTableAssociation(Kind):
    type = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    knows = "routeTableId subnetId"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        options = picked(inputs, "routeTableId", "subnetId")
        return aws("ec2").associate_route_table(**options)["AssociationId"], {}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        associations = _table(aws, inputs).get("Associations", ())
        return {} if id in [each["RouteTableAssociationId"] for each in associations] else None

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").disassociate_route_table(AssociationId=id)


def _table(aws: Aws, inputs: Inputs) -> dict[str, Any]:
    """The route table of these inputs; {} where it is gone."""
    ids = [inputs["routeTableId"]]
    described = gone(lambda: aws("ec2").describe_route_tables(RouteTableIds=ids))
    tables: list[dict[str, Any]] = (described or {}).get("RouteTables", [])
    return tables[0] if tables else {}


class VpcEndpoint(OfEc2):
    type, tagged = "aws:ec2/vpcEndpoint:VpcEndpoint", "vpc-endpoint"
    knows = "vpcId serviceName vpcEndpointType routeTableIds"
    describe, ids, answer = "describe_vpc_endpoints", "VpcEndpointIds", "VpcEndpoints"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("ec2").create_vpc_endpoint(
            VpcId=inputs["vpcId"],
            ServiceName=inputs["serviceName"],
            VpcEndpointType=inputs["vpcEndpointType"],
            RouteTableIds=inputs["routeTableIds"],
            **spec(self, inputs),
        )
        return made["VpcEndpoint"]["VpcEndpointId"], {}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_vpc_endpoints(VpcEndpointIds=[id])


class SecurityGroup(OfEc2):
    type, tagged, name = "aws:ec2/securityGroup:SecurityGroup", "security-group", "name"
    knows = "name vpcId description"
    describe, ids, answer = "describe_security_groups", "GroupIds", "SecurityGroups"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        """Without the rule that lets everything out: Pulumi's provider takes that away too."""
        if inputs["name"].startswith("sg-"):
            raise ValueError("a group's name cannot begin with sg-")
        options = picked(inputs, "vpcId", "description", GroupName="name")
        id = aws("ec2").create_security_group(**options, **spec(self, inputs))["GroupId"]
        strip(aws, id)
        return id, {"arn": f"arn:aws:ec2:us-east-1:123456789012:security-group/{id}"}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("ec2").delete_security_group(GroupId=id)


class DefaultSecurityGroup(OfEc2):
    type, tagged = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "security-group"
    describe, ids, answer = "describe_security_groups", "GroupIds", "SecurityGroups"
    knows = "vpcId"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        filters = [
            {"Name": "vpc-id", "Values": [inputs["vpcId"]]},
            {"Name": "group-name", "Values": ["default"]},
        ]
        described = aws("ec2").describe_security_groups(Filters=filters)["SecurityGroups"]
        id = described[0]["GroupId"]
        strip(aws, id)
        aws("ec2").create_tags(Resources=[id], Tags=listed(inputs.get("tagsAll")))
        return id, {}

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        """It goes with its VPC."""


def strip(aws: Aws, group: str) -> None:
    """Take all rules from a group."""
    has = aws("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0]
    if has["IpPermissionsEgress"]:
        aws("ec2").revoke_security_group_egress(
            GroupId=group, IpPermissions=has["IpPermissionsEgress"]
        )
    if has["IpPermissions"]:
        aws("ec2").revoke_security_group_ingress(GroupId=group, IpPermissions=has["IpPermissions"])


class Rule(Kind):
    """A rule that stands alone: in or out."""

    tagged = "security-group-rule"
    knows = "securityGroupId ipProtocol fromPort toPort cidrIpv4 cidrIpv6 description "
    knows += "referencedSecurityGroupId"
    way = ""

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        rule = picked(inputs, "ipProtocol", "fromPort", "toPort")
        options = picked(inputs, "description")
        if "cidrIpv4" in inputs:
            rule["IpRanges"] = [{"CidrIp": inputs["cidrIpv4"], **options}]
        if "cidrIpv6" in inputs:
            rule["Ipv6Ranges"] = [{"CidrIpv6": inputs["cidrIpv6"], **options}]
        if "referencedSecurityGroupId" in inputs:
            rule["UserIdGroupPairs"] = [{"GroupId": inputs["referencedSecurityGroupId"], **options}]
        allow = getattr(aws("ec2"), f"authorize_security_group_{self.way}")
        fields = {"GroupId": inputs["securityGroupId"], "IpPermissions": [rule]}
        made = allow(**fields, **spec(self, inputs))["SecurityGroupRules"]
        return made[0]["SecurityGroupRuleId"], {}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        filters = [{"Name": "group-id", "Values": [inputs["securityGroupId"]]}]
        described = gone(lambda: aws("ec2").describe_security_group_rules(Filters=filters))
        rules = {r["SecurityGroupRuleId"]: r for r in (described or {})["SecurityGroupRules"]}
        if id not in rules:
            return None
        names = {"CidrIpv4": "cidrIpv4", "FromPort": "fromPort", "ToPort": "toPort"}
        has = {ours: rules[id].get(theirs) for theirs, ours in names.items()}
        return {ours: value for ours, value in has.items() if ours in inputs and value is not None}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        if {**old, "tags": 0, "tagsAll": 0} != {**new, "tags": 0, "tagsAll": 0}:
            super().update(aws, id, old, new)
        aws("ec2").create_tags(Resources=[id], Tags=listed(new.get("tagsAll")))

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        refuse = getattr(aws("ec2"), f"revoke_security_group_{self.way}")
        refuse(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[id])


class Ingress(Rule):
    type, way = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "ingress"


class Egress(Rule):
    type, way = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", "egress"


KINDS = (
    Vpc(), Subnet(), InternetGateway(), RouteTable(), Route(), RouteTableAssociation(),
    VpcEndpoint(), SecurityGroup(), DefaultSecurityGroup(), Ingress(), Egress(),
)  # fmt: skip
