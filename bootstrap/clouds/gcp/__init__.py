"""Google Cloud: Compute Engine instances and Cloud Storage, over REST. `client` signs requests."""
