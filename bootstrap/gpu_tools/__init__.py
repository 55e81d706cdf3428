"""The programs of `make gpu-wheel` and `make gpu-check`. May import everything but `cli`."""
