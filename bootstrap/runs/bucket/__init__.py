"""What a bucket has of a run: its results and its logs."""
