"""The program of `make gpu-check`. May import the folders before `workflows`."""
