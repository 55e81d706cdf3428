"""The results and logs of a run in a bucket."""
