"""A cluster on AWS. cluster.py has the component; each other file is one part of it."""
