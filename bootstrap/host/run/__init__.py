"""What all programs of a run know of it: its files, processes, lease, limits and rights."""
