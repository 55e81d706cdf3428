"""One training run: its request and run document, start, progress, cancellation, results.

May import `ssh`, `clouds` and above, but not `provision`.
"""
