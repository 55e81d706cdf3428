"""Makes machines: the validated config becomes a cluster in one cloud, and its document."""
