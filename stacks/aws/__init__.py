"""A cluster on AWS. The component is in cluster.py; each other file is one noun of it."""
