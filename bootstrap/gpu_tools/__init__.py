"""What `make gpu-wheel` and `make gpu-check` run. May import everything but `cli`."""
