"""The bucket of a stack on AWS."""

from __future__ import annotations

from tests.stacks.aws.world import made, policy

BUCKET = "aws:s3/bucket:Bucket"


def test_the_policy_of_the_bucket_waits_for_its_public_access_block() -> None:
    """AWS takes only one of them at a time, and refuses the other."""
    cluster = made()
    block = cluster.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
    assert block.urn in cluster.one("aws:s3/bucketPolicy:BucketPolicy").depends_on


def test_the_rule_for_old_versions_waits_for_versioning() -> None:
    """AWS asks for that order: on a bucket without versions the rule has nothing to remove."""
    cluster = made()
    versions = cluster.one("aws:s3/bucketVersioning:BucketVersioning")
    lifecycle = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    assert versions.urn in cluster.one(lifecycle).depends_on


def test_the_bucket_is_private_and_outlives_a_destroy_with_its_settings() -> None:
    cluster = made()
    bucket = cluster.one(BUCKET)
    assert not bucket.inputs.get("forceDestroy")
    block = cluster.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").inputs
    assert [block[key] for key in sorted(block) if key != "bucket"] == [True] * 4
    encryption = "aws:s3/bucketServerSideEncryptionConfiguration:"
    (rule,) = cluster.one(f"{encryption}BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "AES256"
    versions = cluster.one("aws:s3/bucketVersioning:BucketVersioning").inputs
    assert versions["versioningConfiguration"] == {"status": "Enabled"}
    lifecycle = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    life, checkpoints = cluster.one(lifecycle).inputs["rules"]
    assert (life["status"], life["filter"]) == ("Enabled", {"prefix": ""})
    assert life["noncurrentVersionExpiration"] == {"noncurrentDays": 7}
    assert life["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 2}
    assert checkpoints["noncurrentVersionExpiration"] == {"noncurrentDays": 1}
    assert checkpoints["filter"] == {"tag": {"key": "railhead", "value": "checkpoint"}}
    assert not {"expiration"} & (life.keys() | checkpoints.keys()), "what is current stays"
    (refusal,) = policy(cluster.one("aws:s3/bucketPolicy:BucketPolicy").inputs["policy"])
    assert (refusal["Effect"], refusal["Principal"]) == ("Deny", "*")
    assert refusal["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert set(refusal["Resource"]) == {f"arn:mock:cluster-results{end}" for end in ("", "/*")}
    settings = [r for r in cluster.resources if r.type.startswith("aws:s3/bucket")]
    assert all(resource.deleted_with == bucket.urn for resource in settings if resource != bucket)
    assert "aws:s3/bucket:Bucket" not in made(bucket=False).kinds
    assert made(bucket_name="my-results").one(BUCKET).inputs["bucket"] == "my-results"


def test_a_destroy_comes_to_the_bucket_last() -> None:
    """So that one with objects, which AWS refuses to remove, leaves nothing else behind."""
    cluster = made()
    bucket = cluster.one(BUCKET).urn
    after = {bucket}
    for _ in cluster.resources:  # as often as the longest chain could be long
        after |= {
            resource.urn for resource in cluster.resources if after & set(resource.depends_on)
        }
    first = [r for r in cluster.resources if r.type in cluster.kinds and r.urn not in after]
    assert not first, [resource.name for resource in first]
