"""What happens on the machines: hosts in, a plan, made ready, runs, results out; over SSH alone."""
