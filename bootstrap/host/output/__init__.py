"""The output of a run as logs, records, and the end of each rank."""
