"""Roles, what they may do, and quotas."""

from __future__ import annotations

from botocore.exceptions import ClientError
from standins.aws.kinds import Aws, Inputs, Kind, gone, listed, picked, same_json


class Role(Kind):
    type, tagged, name = "aws:iam/role:Role", "role", "name"
    knows = "name description assumeRolePolicy forceDetachPolicies"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        made = aws("iam").create_role(
            RoleName=inputs["name"],
            AssumeRolePolicyDocument=inputs["assumeRolePolicy"],
            Description=inputs["description"],
            Tags=listed(inputs.get("tagsAll")),
        )["Role"]
        return inputs["name"], {"arn": made["Arn"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        role = gone(lambda: aws("iam").get_role(RoleName=id)["Role"])
        if role is None:
            return None
        trust = same_json(inputs["assumeRolePolicy"], role["AssumeRolePolicyDocument"])
        return {"arn": role["Arn"], "assumeRolePolicy": trust}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        if old["assumeRolePolicy"] != new["assumeRolePolicy"]:
            trust = new["assumeRolePolicy"]
            aws("iam").update_assume_role_policy(RoleName=id, PolicyDocument=trust)
        aws("iam").tag_role(RoleName=id, Tags=listed(new.get("tagsAll")))

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        """With forceDetachPolicies the provider removes inline policies too (aws_iam_role.go)."""
        if state.get("forceDetachPolicies"):
            for name in aws("iam").list_role_policies(RoleName=id)["PolicyNames"]:
                aws("iam").delete_role_policy(RoleName=id, PolicyName=name)
        aws("iam").delete_role(RoleName=id)


class RolePolicy(Kind):
    type, name = "aws:iam/rolePolicy:RolePolicy", "name"
    knows = "name role policy"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        self.update(aws, "", {}, inputs)
        return f"{inputs['role']}:{inputs['name']}", {}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        names = picked(inputs, RoleName="role", PolicyName="name")
        policy = gone(lambda: aws("iam").get_role_policy(**names)["PolicyDocument"])
        return None if policy is None else {"policy": same_json(inputs["policy"], policy)}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        options = picked(new, RoleName="role", PolicyName="name", PolicyDocument="policy")
        aws("iam").put_role_policy(**options)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("iam").delete_role_policy(**picked(state, RoleName="role", PolicyName="name"))


class InstanceProfile(Kind):
    type, tagged, name = "aws:iam/instanceProfile:InstanceProfile", "profile", "name"
    knows = "name role"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        iam, options = aws("iam"), picked(inputs, InstanceProfileName="name")
        made = iam.create_instance_profile(**options, Tags=listed(inputs.get("tagsAll")))
        iam.add_role_to_instance_profile(**options, RoleName=inputs["role"])
        return inputs["name"], {"arn": made["InstanceProfile"]["Arn"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        described = gone(lambda: aws("iam").get_instance_profile(InstanceProfileName=id))
        return None if described is None else {"arn": described["InstanceProfile"]["Arn"]}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        tags = listed(new.get("tagsAll"))
        aws("iam").tag_instance_profile(InstanceProfileName=id, Tags=tags)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        options = {"InstanceProfileName": id}
        aws("iam").remove_role_from_instance_profile(**options, RoleName=state["role"])
        aws("iam").delete_instance_profile(**options)


class ServiceQuota(Kind):
    """A request while it is pending shows its own value: the provider sees no drift."""

    type = "aws:servicequotas/serviceQuota:ServiceQuota"
    knows = "serviceCode quotaCode value"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        names = picked(inputs, "serviceCode", "quotaCode")
        now = aws("service-quotas").get_service_quota(**names)["Quota"]["Value"]
        if inputs["value"] < now:
            raise ClientError(
                {"Error": {"Code": "IllegalArgumentException", "Message": "that is a decrease"}},
                "RequestServiceQuotaIncrease",
            )
        output = aws("service-quotas").request_service_quota_increase(
            **names, DesiredValue=inputs["value"]
        )["RequestedQuota"]
        id = f"{inputs['serviceCode']}/{inputs['quotaCode']}"
        return id, {"requestId": output["Id"], "requestStatus": output["Status"]}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        names = picked(inputs, "serviceCode", "quotaCode")
        aws("service-quotas").get_service_quota(**names)
        return {}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        self.create(aws, new)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        raise NotImplementedError("a quota is never taken back")


KINDS = (Role(), RolePolicy(), InstanceProfile(), ServiceQuota())
