"""Keeps from the ranks of a run, and from other users of its hosts, what is not theirs."""
