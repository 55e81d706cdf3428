"""The tags on every resource that can have tags: cluster, owner, stack and id. Pure."""

from __future__ import annotations

from ..config.settings import ClusterConfig

CLUSTER, OWNER, STACK = "railhead:cluster", "railhead:owner", "railhead:stack"
ID = "railhead:id"  # its value is in stacks/cluster_id.py
# The types of resources that a cluster has and that can have tags.
TYPES = frozenset(
    {
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "aws:ec2/instance:Instance",
        "aws:ec2/internetGateway:InternetGateway",
        "aws:ec2/keyPair:KeyPair",
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:ec2/routeTable:RouteTable",
        "aws:ec2/securityGroup:SecurityGroup",
        "aws:ec2/subnet:Subnet",
        "aws:ec2/vpc:Vpc",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "aws:iam/instanceProfile:InstanceProfile",
        "aws:iam/role:Role",
        "aws:s3/bucket:Bucket",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    }
)


def tags(config: ClusterConfig, stack: str) -> dict[str, str]:
    """The tags of a resource, for cost reports and for finding leftovers."""
    return {CLUSTER: config.name, OWNER: config.owner, STACK: stack}
