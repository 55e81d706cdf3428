"""A run whose chief is lost is continued by another host: who supervises a run is a lease in its
bucket.

Only runs with `takeover` in run.json use it. Standard library only, Python 3.10.
"""
