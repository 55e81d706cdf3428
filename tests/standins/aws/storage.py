"""Buckets and their settings."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError
from standins.aws.kinds import Aws, Inputs, Kind, gone, listed, picked, same_json


class Bucket(Kind):
    type, tagged, name = "aws:s3/bucket:Bucket", "bucket", "bucket"
    knows = "bucket forceDestroy"

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        s3, name = aws("s3"), inputs["bucket"]
        region = s3.meta.region_name
        if region == "us-east-1" and self.read(aws, name, inputs) is not None:
            # S3 accepts it there, and the provider does not.
            error: Any = {"Error": {"Code": "BucketAlreadyExists", "Message": name}}
            raise ClientError(error, "CreateBucket")
        where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=name, **({} if region == "us-east-1" else where))
        self._tag(aws, name, inputs)
        return name, {"arn": f"arn:aws:s3:::{name}"}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        try:
            aws("s3").head_bucket(Bucket=id)
        except ClientError as error:
            if error.response["Error"]["Code"] == "404":
                return None
            raise
        return {"arn": f"arn:aws:s3:::{id}"}

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        self._tag(aws, id, new)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        if state.get("forceDestroy"):
            raise NotImplementedError("forceDestroy")
        aws("s3").delete_bucket(Bucket=id)

    def _tag(self, aws: Aws, id: str, inputs: Inputs) -> None:
        tags = {"TagSet": listed(inputs.get("tagsAll"))}
        aws("s3").put_bucket_tagging(Bucket=id, Tagging=tags)


class Setting(Kind):
    """One setting of a bucket; its id is the bucket's name."""

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        raise NotImplementedError

    def get(self, aws: Aws, bucket: str) -> Any:
        """What the bucket has."""
        raise NotImplementedError

    def create(self, aws: Aws, inputs: Inputs) -> tuple[str, Inputs]:
        self.put(aws, inputs)
        return inputs["bucket"], {}

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        return {} if gone(lambda: self.get(aws, id)) else None

    def update(self, aws: Aws, id: str, old: Inputs, new: Inputs) -> None:
        self.put(aws, new)


class PublicAccessBlock(Setting):
    type = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    knows = "bucket blockPublicAcls blockPublicPolicy ignorePublicAcls restrictPublicBuckets"

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        options = {"PublicAccessBlockConfiguration": picked(inputs, *self.knows.split()[1:])}
        return aws("s3").put_public_access_block(Bucket=inputs["bucket"], **options)

    def get(self, aws: Aws, bucket: str) -> Any:
        return aws("s3").get_public_access_block(Bucket=bucket)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("s3").delete_public_access_block(Bucket=id)


class Encryption(Setting):
    type = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    knows = "bucket rules"

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        rules = [
            {
                "ApplyServerSideEncryptionByDefault": picked(
                    rule["applyServerSideEncryptionByDefault"],
                    SSEAlgorithm="sseAlgorithm",
                    KMSMasterKeyID="kmsMasterKeyId",
                )
            }
            for rule in inputs["rules"]
        ]
        return aws("s3").put_bucket_encryption(
            Bucket=inputs["bucket"], ServerSideEncryptionConfiguration={"Rules": rules}
        )

    def get(self, aws: Aws, bucket: str) -> Any:
        return aws("s3").get_bucket_encryption(Bucket=bucket)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("s3").delete_bucket_encryption(Bucket=id)


class Policy(Setting):
    type, knows = "aws:s3/bucketPolicy:BucketPolicy", "bucket policy"

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        options = picked(inputs, "bucket", "policy")
        return aws("s3").put_bucket_policy(**options)

    def get(self, aws: Aws, bucket: str) -> Any:
        return aws("s3").get_bucket_policy(Bucket=bucket)["Policy"]

    def read(self, aws: Aws, id: str, inputs: Inputs) -> Inputs | None:
        policy = gone(lambda: self.get(aws, id))
        return {"policy": same_json(inputs["policy"], json.loads(policy))} if policy else None

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("s3").delete_bucket_policy(Bucket=id)


class Versioning(Setting):
    type, knows = "aws:s3/bucketVersioning:BucketVersioning", "bucket versioningConfiguration"

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        status = {"Status": inputs["versioningConfiguration"]["status"]}
        options = {"Bucket": inputs["bucket"], "VersioningConfiguration": status}
        return aws("s3").put_bucket_versioning(**options)

    def get(self, aws: Aws, bucket: str) -> Any:
        return aws("s3").get_bucket_versioning(Bucket=bucket).get("Status")

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("s3").put_bucket_versioning(Bucket=id, VersioningConfiguration={"Status": "Suspended"})


class Lifecycle(Setting):
    type = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    knows = "bucket rules"

    def put(self, aws: Aws, inputs: Inputs) -> Any:
        rules = [_rule(rule) for rule in inputs["rules"]]
        return aws("s3").put_bucket_lifecycle_configuration(
            Bucket=inputs["bucket"], LifecycleConfiguration={"Rules": rules}
        )

    def get(self, aws: Aws, bucket: str) -> Any:
        return aws("s3").get_bucket_lifecycle_configuration(Bucket=bucket)

    def delete(self, aws: Aws, id: str, state: Inputs) -> None:
        aws("s3").delete_bucket_lifecycle(Bucket=id)


def _rule(rule: Inputs) -> dict[str, Any]:
    parameters: dict[str, Any] = picked(rule, "status", ID="id")
    parameters["Filter"] = picked(rule.get("filter", {}), "prefix")
    if tag := rule.get("filter", {}).get("tag"):
        parameters["Filter"] = {"Tag": picked(tag, "key", "value")}
    if old := rule.get("noncurrentVersionExpiration"):
        parameters["NoncurrentVersionExpiration"] = picked(old, "noncurrentDays")
    if unfinished := rule.get("abortIncompleteMultipartUpload"):
        days = picked(unfinished, "daysAfterInitiation")
        parameters["AbortIncompleteMultipartUpload"] = days
    return parameters


KINDS = (Bucket(), PublicAccessBlock(), Encryption(), Policy(), Versioning(), Lifecycle())
