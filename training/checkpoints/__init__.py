"""The checkpoints of a training: files, the thread that writes them, and the state in them."""
