"""What holds a run on its hosts: supervisor, ranks, the stop of machines, manifest, upload."""
