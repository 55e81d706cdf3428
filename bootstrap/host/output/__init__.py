"""Turns the output of a run into logs, records, and the end of each rank."""
