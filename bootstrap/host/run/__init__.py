"""Controls a run on its hosts: supervisor, ranks, stop of machines, manifest, upload."""
