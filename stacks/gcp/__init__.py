"""A cluster on Google Cloud. cluster.py has the component; each other file is one part of it."""
