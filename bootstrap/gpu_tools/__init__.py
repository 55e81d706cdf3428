"""The programs of `make gpu-wheel` and `make gpu-check`. May import
the folders before `workflows`."""
