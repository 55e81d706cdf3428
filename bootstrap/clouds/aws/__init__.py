"""AWS: EC2 instances, EventBridge Scheduler, S3. boto3 is imported in `client` alone."""
