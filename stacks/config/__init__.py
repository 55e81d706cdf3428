"""The config of a stack: from the texts of `pulumi config` to a validated ClusterConfig. Pure."""
