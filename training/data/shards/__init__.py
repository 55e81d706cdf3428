"""Shards: their manifest, how they are written, and how they are read."""
